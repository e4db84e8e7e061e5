#include "core/backends/cuda/binders/binders.h"
#include "core/backends/cuda/kernels/movement/gather.h"

namespace latentd::backends::cuda {

absl::StatusOr<BoundKernel> BindUpsample(const BinderArguments& a) {
  const auto& upsample = std::get<graph::UpsampleAttributes>(a.instruction.attributes);
  const bool nhwc = upsample.layout == graph::Layout::kNhwc;
  const graph::Shape& shape = a.operand(0).shape;
  kernels::UpsampleArgs args;
  args.element = ElementOf(a.operand(0));
  args.planes = nhwc ? shape[0] : shape[0] * shape[1];
  args.channels = nhwc ? shape[3] : 1;
  args.height = shape[nhwc ? 1 : 2];
  args.width = shape[nhwc ? 2 : 3];
  args.result_height = upsample.height;
  args.result_width = upsample.width;
  return OwnKernel(a, args, [x = a.operand(0), y = a.result()](auto& args, const Frame& f) {
    args.x = BytesOf(x, f);
    args.result = BytesOf(y, f);
    return kernels::Upsample(args, f.stream);
  });
}

absl::StatusOr<BoundKernel> BindEmbedding(const BinderArguments& a) {
  kernels::EmbeddingArgs args;
  args.element = ElementOf(a.operand(0));
  args.entries = a.operand(0).shape[0];
  args.channels = a.operand(0).shape[1];
  args.size = a.operand(1).shape.elements();
  return OwnKernel(
      a, args,
      [table = a.operand(0), ids = a.operand(1), y = a.result()](auto& args, const Frame& f) {
        args.table = BytesOf(table, f);
        args.ids = AddressOf<int64_t>(ids, f);
        args.result = BytesOf(y, f);
        return kernels::Embedding(args, f.stream);
      });
}

absl::StatusOr<BoundKernel> BindSelect(const BinderArguments& a) {
  kernels::SelectArgs args;
  args.rows = a.operand(0).shape[0];
  args.entries = a.operand(0).shape[1];
  args.channels = a.operand(0).shape[2];
  return OwnKernel(
      a, args,
      [table = a.operand(0), index = a.operand(1), y = a.result()](auto& args, const Frame& f) {
        args.table = AddressOf<float>(table, f);
        args.index = AddressOf<int64_t>(index, f);
        args.result = AddressOf<float>(y, f);
        return kernels::Select(args, f.stream);
      });
}

}  // namespace latentd::backends::cuda
