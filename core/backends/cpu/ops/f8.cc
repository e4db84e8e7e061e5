// 8-bit products, which processors do not have: computed in f32 they would be slower than those of
// f32 and less exact, so that nothing is gained. The reference backend has them, to be
// compared with.
#include "absl/strings/str_cat.h"
#include "core/backends/cpu/binding/binders.h"
#include "core/graph/op_table.h"

namespace latentd::backends::cpu {
namespace {

absl::Status NoF8(const BinderArguments& a) {
  return absl::UnimplementedError(absl::StrCat("the CPU backend has no 8-bit products: no ",
                                               graph::RowOf(a.instruction.op).name,
                                               "; the cuda and the reference backend do"));
}

}  // namespace

absl::StatusOr<BoundKernel> BindRowNorm(const BinderArguments& a) { return NoF8(a); }
absl::StatusOr<BoundKernel> BindF8Scale(const BinderArguments& a) { return NoF8(a); }
absl::StatusOr<BoundKernel> BindQuantize(const BinderArguments& a) { return NoF8(a); }
absl::StatusOr<BoundKernel> BindLayerNormF8(const BinderArguments& a) { return NoF8(a); }
absl::StatusOr<BoundKernel> BindGegluF8(const BinderArguments& a) { return NoF8(a); }
absl::StatusOr<BoundKernel> BindAttentionF8(const BinderArguments& a) { return NoF8(a); }
absl::StatusOr<BoundKernel> BindF8Linear(const BinderArguments& a) { return NoF8(a); }
absl::StatusOr<BoundKernel> BindF8LinearGeglu(const BinderArguments& a) { return NoF8(a); }
absl::StatusOr<BoundKernel> BindF8Convolution(const BinderArguments& a) { return NoF8(a); }
absl::StatusOr<BoundKernel> BindGroupNormF8(const BinderArguments& a) { return NoF8(a); }

}  // namespace latentd::backends::cpu
