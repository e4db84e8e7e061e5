#include "core/backends/cuda/kernels/products/low_rank.h"

#include "core/backends/cuda/binders/binders.h"

namespace latentd::backends::cuda {

absl::StatusOr<BoundKernel> BindLowRank(const BinderArguments& a) {
  const View base = *lowering::AsLines(a.operand(0)), x = *lowering::AsLines(a.operand(1));
  const View down = a.operand(2), up = a.operand(3), slot = a.operand(4), scale = a.operand(5);
  kernels::LowRankArgs args;
  args.element = ElementOf(base);
  args.rows = base.shape[0];
  args.lines = base.shape[1];
  args.in = x.shape[2];
  args.out = base.shape[2];
  args.slots = down.shape[0];
  args.rank = down.shape[1];
  args.base_row = base.strides[0];
  args.base_line = base.strides[1];
  args.x_row = x.strides[0];
  args.x_line = x.strides[1];
  args.down_slot = down.strides[0];
  args.up_slot = up.strides[0];
  args.scale_row = scale.strides[0];
  BoundKernel kernel = OwnKernel(a, args, [=, y = a.result()](auto& args, const Frame& f) {
    args.base = BytesOf(base, f);
    args.x = BytesOf(x, f);
    args.down = BytesOf(down, f);
    args.up = BytesOf(up, f);
    args.slot = AddressOf<const int64_t>(slot, f);
    args.scale = AddressOf<const float>(scale, f);
    args.hidden = f.workspace;
    args.result = BytesOf(y, f);
    return kernels::LowRank(args, f.stream);
  });
  kernel.workspace_bytes = static_cast<size_t>(kernels::LowRankHiddenBytes(args));
  return kernel;
}

}  // namespace latentd::backends::cuda
