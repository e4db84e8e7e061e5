#include "core/backends/cpu/binding/binders.h"
#include "core/backends/cpu/binding/element.h"

namespace latentd::backends::cpu {

absl::StatusOr<BoundKernel> BindLowRank(const BinderArguments& a) {
  const View base = *lowering::AsLines(a.operand(0)), x = *lowering::AsLines(a.operand(1));
  const View down = a.operand(2), up = a.operand(3), slot = a.operand(4), scale = a.operand(5),
             y = a.result();
  LowRankArguments arguments = {};
  arguments.element = ElementOf(base.dtype);
  arguments.rows = base.shape[0];
  arguments.lines = base.shape[1];
  arguments.in = x.shape[2];
  arguments.out = base.shape[2];
  arguments.slots = down.shape[0];
  arguments.rank = down.shape[1];
  arguments.base_row = base.strides[0];
  arguments.base_line = base.strides[1];
  arguments.x_row = x.strides[0];
  arguments.x_line = x.strides[1];
  arguments.down_slot = down.strides[0];
  arguments.up_slot = up.strides[0];
  arguments.scale_row = scale.strides[0];
  arguments.threads = a.machine.threads;

  BoundKernel kernel;
  kernel.workspace_bytes = a.machine.kernels->low_rank_workspace(arguments);
  kernel.run = [=, run = a.machine.kernels->low_rank](const Frame& f) mutable {
    arguments.base = BytesOf(base, f);
    arguments.x = BytesOf(x, f);
    arguments.down = BytesOf(down, f);
    arguments.up = BytesOf(up, f);
    arguments.slot = AddressOf<const int64_t>(slot, f);
    arguments.scale = AddressOf<const float>(scale, f);
    arguments.y = BytesOf(y, f);
    arguments.workspace = f.workspace;
    run(arguments);
    return absl::OkStatus();
  };
  return kernel;
}

}  // namespace latentd::backends::cpu
