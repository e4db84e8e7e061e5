// Strided loops over two or three views.
#pragma once

#include "absl/types/span.h"
#include "core/backends/cpu/kernels/kernel_table.h"
#include "core/backends/lowering/view.h"

namespace latentd::backends::cpu {

// Loops over the elements of views of one shape, the result first. Dimensions of size 1 are left
// out and those that lie one within the other for all views are joined, so that the innermost loop
// is long; there is at least one loop. REQUIRES: at most kMaxLoops dimensions.
LoopNest LoopsOver(absl::Span<const lowering::View* const> views);

}  // namespace latentd::backends::cpu
