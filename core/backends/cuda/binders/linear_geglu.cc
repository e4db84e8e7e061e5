// A linear layer and the GEGLU that alone reads it: in one launch where there is a kernel for it,
// else the linear layer into the workspace and GEGLU of that. A low-rank path between them is added
// by what computes GEGLU, where there is a kernel for that, else in the workspace before.
#include "core/backends/cuda/kernels/products/linear_geglu.h"

#include <optional>

#include "core/backends/cuda/binders/packing.h"
#include "core/backends/cuda/binders/product.h"
#include "core/backends/cuda/kernels/products/low_rank.h"
#include "core/backends/cuda/kernels/values/elementwise.h"
#include "core/base/alignment.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cuda {
namespace {

// Alignment of operands and result in bytes.
constexpr int64_t kFusedAlignment = 16;

kernels::LinearGegluArgs ArgumentsOf(const BinderArguments& a) {
  const graph::Shape& weight = a.operand(1).shape;
  kernels::LinearGegluArgs args;
  args.element = ElementOf(a.operand(0));
  args.rows = RowsOf(a.operand(0));
  args.columns = weight[0] / 2;
  args.depth = weight[1];
  return args;
}

bool HasFused(const BinderArguments& a) {
  for (const View* view : {&a.operand(0), &a.operand(2), &a.result()}) {
    if (view->present() && AlignmentOf(a.program, *view, {}) < kFusedAlignment) return false;
  }
  return IsHopper(a.gpu) && a.weight_is_held() && kernels::HasLinearGeglu(ArgumentsOf(a));
}

BoundKernel BindFused(const BinderArguments& a) {
  const View &x = a.operand(0), &weight = a.operand(1), &bias = a.operand(2), &y = a.result();
  BoundKernel kernel = OwnKernel(a, ArgumentsOf(a), [x, bias, y](auto& args, const Frame& f) {
    args.x = BytesOf(x, f);
    args.weight = f.packed;
    args.bias = bias.present() ? BytesOf(bias, f) : nullptr;
    args.result = BytesOf(y, f);
    return kernels::LinearGeglu(args, f.stream);
  });
  const int64_t bytes = weight.shape.elements() * device::SizeOf(weight.dtype);
  kernel.packing = {std::string(kGatedForm), static_cast<size_t>(bytes), 0};
  return kernel;
}

// A path beside the linear layer: operands 3 to 6.
class GegluPath {
 public:
  explicit GegluPath(const BinderArguments& a)
      : x_(a.operand(0)),
        down_(a.operand(3)),
        up_(a.operand(4)),
        slot_(a.operand(5)),
        scale_(a.operand(6)) {
    args_.element = ElementOf(x_);
    args_.rows = x_.shape[0];
    args_.lines = RowsOf(x_) / args_.rows;
    args_.in = x_.shape[-1];
    args_.out = up_.shape[1];
    args_.slots = down_.shape[0];
    args_.rank = down_.shape[1];
    args_.base_line = args_.out;
    args_.base_row = args_.lines * args_.out;
    args_.x_line = args_.in;
    args_.x_row = args_.lines * args_.in;
    args_.down_slot = down_.strides[0];
    args_.up_slot = up_.strides[0];
    args_.scale_row = scale_.strides[0];
    computes_geglu_ =
        IsHopper(a.gpu) && kernels::FitsClusters(args_) && args_.out % 64 == 0 && BeginAtWords(a);
  }

  // True if Enqueue computes GEGLU too.
  bool computes_geglu() const { return computes_geglu_; }
  size_t workspace_bytes() const {
    return RoundUp<size_t>(kernels::LowRankHiddenBytes(args_), kPlaceAlignment);
  }

  // Adds it to the halves, in place, or writes GEGLU of the sum.
  absl::Status Enqueue(void* halves, void* workspace, void* result, const Frame& f) const {
    kernels::LowRankArgs args = args_;
    args.base = halves;
    args.x = BytesOf(x_, f);
    args.down = BytesOf(down_, f);
    args.up = BytesOf(up_, f);
    args.slot = AddressOf<const int64_t>(slot_, f);
    args.scale = AddressOf<const float>(scale_, f);
    args.hidden = workspace;
    args.result = computes_geglu_ ? result : halves;
    return Launched(
        computes_geglu_ ? kernels::LowRankGeglu(args, f.stream) : kernels::LowRank(args, f.stream),
        graph::Op::kLowRank);
  }

 private:
  const View x_, down_, up_, slot_, scale_;
  kernels::LowRankArgs args_;
  bool computes_geglu_;
};

std::optional<GegluPath> PathOf(const BinderArguments& a) {
  if (a.instruction.operands.size() == 3) return std::nullopt;
  return GegluPath(a);
}

absl::StatusOr<BoundKernel> BindApart(const BinderArguments& a) {
  const View x = a.operand(0), weight = a.operand(1), y = a.result();
  const ProductBias bias(a, a.operand(2));
  const std::optional<GegluPath> path = PathOf(a);
  const size_t hidden_at = bias.workspace_bytes();
  const size_t halves_at = hidden_at + (path.has_value() ? path->workspace_bytes() : 0);
  const ProductShape shape = WeightProductShape(a);
  ASSIGN_OR_RETURN(const std::shared_ptr<const Product> product, BindProduct(a, shape));
  const size_t products_at =
      halves_at +
      RoundUp<size_t>(shape.rows * shape.columns * device::SizeOf(x.dtype), kPlaceAlignment);
  kernels::GegluArgs geglu;
  geglu.element = ElementOf(x);
  geglu.rows = shape.rows;
  geglu.channels = shape.columns / 2;
  BoundKernel kernel = OwnKernel(a, geglu, [halves_at, y](auto& args, const Frame& f) {
    args.x = f.workspace + halves_at;
    args.result = BytesOf(y, f);
    return kernels::Geglu(args, f.stream);
  });
  kernel.workspace_bytes = products_at + product->workspace_bytes();
  kernel.enqueue = [=, apply_geglu = std::move(kernel.enqueue)](const Frame& f) -> absl::Status {
    ASSIGN_OR_RETURN(const void* const read, bias.Enqueue(f));
    RETURN_IF_ERROR(product->Enqueue({.a = BytesOf(x, f),
                                      .b = BytesOf(weight, f),
                                      .bias = read,
                                      .result = f.workspace + halves_at,
                                      .workspace = f.workspace + products_at},
                                     f.stream));
    if (path.has_value()) {
      RETURN_IF_ERROR(
          path->Enqueue(f.workspace + halves_at, f.workspace + hidden_at, BytesOf(y, f), f));
      if (path->computes_geglu()) return absl::OkStatus();
    }
    return apply_geglu(f);
  };
  return kernel;
}

}  // namespace

absl::StatusOr<BoundKernel> BindLinearGeglu(const BinderArguments& a) {
  if (a.instruction.operands.size() == 3 && HasFused(a)) return BindFused(a);
  return BindApart(a);
}

}  // namespace latentd::backends::cuda
