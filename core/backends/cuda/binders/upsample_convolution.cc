// An upsampling to twice the size and the 3x3 convolution that alone reads it, as one transposed
// convolution of the small image by cuDNN (kernels/doubling_weight.h): 4/9 of the multiplications.
// Where cuDNN has none, the large image is made in the workspace and convolved there.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/backends/cuda/binders/image_plans.h"
#include "core/backends/cuda/binders/packing.h"
#include "core/backends/cuda/kernels/movement/strided.h"
#include "core/base/alignment.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cuda {
namespace {

// Multiple of channels for which cuDNN's kernels for tensor cores read 16 bytes at a time.
constexpr int64_t kChannelStep = 8;

TransposedConvolutionShape ShapeOf(const BinderArguments& a) {
  const graph::Shape& x = a.operand(0).shape;
  return {.dtype = a.operand(0).dtype,
          .rows = x[0],
          .height = x[1],
          .width = x[2],
          .channels = x[3],
          .out = a.operand(1).shape[0]};
}

bool CudnnMayHaveIt(const BinderArguments& a, const TransposedConvolutionShape& s) {
  return CudnnReads(a) && a.weight_is_held() && s.channels % kChannelStep == 0 &&
         s.out % kChannelStep == 0;
}

// Adds the bias to the result where it lies: a plan that does takes longer than both. Where others
// can add it, there is none (core/passes/upsample_bias.h).
BoundKernel BindBias(const BinderArguments& a) {
  const View &y = a.result(), &bias = a.operand(2);
  const int64_t channels = y.shape[-1];
  const kernels::BinaryArgs args = {.function = kernels::BinaryFunction::kAdd,
                                    .element = ElementOf(y),
                                    .rank = 2,
                                    .sizes = {RowsOf(y), channels},
                                    .a_strides = {channels, 1},
                                    .b_strides = {0, 1},
                                    .result_strides = {channels, 1}};
  return OwnKernel(a, args, [y, bias](auto& args, const Frame& f) {
    args.a = args.result = BytesOf(y, f);
    args.b = BytesOf(bias, f);
    return kernels::Binary(args, f.stream);
  });
}

absl::StatusOr<BoundKernel> BindPlans(const BinderArguments& a, std::vector<ImagePlan> plans) {
  const View& weight = a.operand(1);
  ASSIGN_OR_RETURN(const size_t packed_bytes,
                   PackedBytes(kDoublingForm, weight.dtype, weight.shape));
  BoundKernel kernel;
  kernel.packing = {std::string(kDoublingForm), packed_bytes, 0};
  kernel.workspace_bytes = WorkspaceBytesOf(plans);
  kernel.enqueue = [plans = std::move(plans), x = a.operand(0),
                    y = a.result()](const Frame& f) -> absl::Status {
    for (const ImagePlan& each : plans) {
      const std::array<void*, 3> addresses = {ImageAt(x, each.first_row, 0, f),
                                              const_cast<void*>(f.packed),
                                              ImageAt(y, each.first_row, 0, f)};
      RETURN_IF_ERROR(each.plan->Enqueue(addresses, f.workspace, f.stream));
    }
    return absl::OkStatus();
  };
  if (!a.operand(2).present()) return kernel;
  kernel.enqueue = [convolve = std::move(kernel.enqueue),
                    add_bias = BindBias(a).enqueue](const Frame& f) {
    RETURN_IF_ERROR(convolve(f));
    return add_bias(f);
  };
  return kernel;
}

// The two ops behind each other, as a program with one more storage: the large image.
absl::StatusOr<BoundKernel> BindApart(const BinderArguments& a) {
  const View& x = a.operand(0);
  const graph::Shape shape = {x.shape[0], 2 * x.shape[1], 2 * x.shape[2], x.shape[3]};
  Program program{a.program.storages, {}};
  const size_t outer = program.storages.size();
  program.storages.push_back({.dtype = x.dtype, .elements = shape.elements()});
  const View image = lowering::DenseView(static_cast<int>(outer), x.dtype, shape);

  const Instruction upsample = {
      .kernel = Kernel::kUpsample,
      .op = graph::Op::kUpsampleNearest,
      .attributes = graph::UpsampleAttributes{shape[1], shape[2], graph::Layout::kNhwc},
      .operands = {x},
      .result = image};
  Instruction convolve = a.instruction;
  convolve.kernel = Kernel::kConvolution;
  convolve.operands[0] = image;
  convolve.operands.emplace_back();  // no residual
  ASSIGN_OR_RETURN(const BoundKernel first, BindUpsample({{program, upsample}, a.chooser, a.gpu}));
  ASSIGN_OR_RETURN(BoundKernel kernel, BindConvolution({{program, convolve}, a.chooser, a.gpu}));

  const auto image_bytes =
      RoundUp<size_t>(shape.elements() * device::SizeOf(x.dtype), kPlaceAlignment);
  kernel.workspace_bytes += image_bytes;
  kernel.enqueue = [=, upsample = first.enqueue,
                    convolve = std::move(kernel.enqueue)](const Frame& f) {
    std::vector<char*> storages(f.storages, f.storages + outer);
    storages.push_back(f.workspace);
    const Frame inner = {{storages.data(), f.workspace + image_bytes, f.packed}, f.stream};
    RETURN_IF_ERROR(upsample(inner));
    return convolve(inner);
  };
  return kernel;
}

}  // namespace

absl::StatusOr<BoundKernel> BindUpsampleConvolution(const BinderArguments& a) {
  const TransposedConvolutionShape shape = ShapeOf(a);
  if (!CudnnMayHaveIt(a, shape)) return BindApart(a);
  ASSIGN_OR_RETURN(
      std::vector<ImagePlan> plans,
      ImagePlansFor(a, shape,
                    std::max(shape.channels, 4 * shape.out) * shape.height * shape.width));
  return plans.empty() ? BindApart(a) : BindPlans(a, std::move(plans));
}

}  // namespace latentd::backends::cuda
