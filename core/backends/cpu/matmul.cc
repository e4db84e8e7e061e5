// Products of two computed matrices, on oneDNN.
#include <array>

#include "core/backends/cpu/binders.h"
#include "core/backends/cpu/onednn.h"

namespace latentd::backends::cpu {
namespace {

// The leading dimensions as one batch.
dnnl::memory::desc Batch(const View& view) {
  const int64_t rows = view.shape[-2], columns = view.shape[-1];
  const int64_t batch = view.shape.elements() / (rows * columns);
  return Layout(view.dtype, {batch, rows, columns}, dnnl::memory::format_tag::abc);
}

}  // namespace

absl::StatusOr<BoundKernel> BindMatmul(const BinderArguments& a) {
  dnnl::matmul::primitive_desc desc(
      dnnl::matmul::desc(Batch(a.operand(0)), Batch(a.operand(1)), Batch(a.result())),
      Attributes(nullptr, graph::Op::kInput), Engine());
  SkipUnsound(desc);
  BoundKernel kernel;
  kernel.workspace_bytes = desc.scratchpad_desc().get_size();
  auto primitive = std::make_shared<Primitive>(dnnl::matmul(desc),
                                               std::vector<std::pair<int, dnnl::memory::desc>>{
                                                   {DNNL_ARG_SRC, desc.src_desc()},
                                                   {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                                   {DNNL_ARG_DST, desc.dst_desc()},
                                                   {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}});
  kernel.run = [left = a.operand(0), right = a.operand(1), y = a.result(),
                primitive](const Frame& f) {
    const std::array<const void*, 4> addresses = {BytesOf(left, f), BytesOf(right, f),
                                                  BytesOf(y, f), f.workspace};
    primitive->Run(addresses);
    return absl::OkStatus();
  };
  return kernel;
}

}  // namespace latentd::backends::cpu
