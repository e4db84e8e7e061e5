#include "core/backends/cuda/binders/product.h"
#include "core/backends/cuda/kernels/movement/strided.h"
#include "core/base/alignment.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cuda {
namespace {

constexpr int64_t kBiasAlignment = 16;

// Dense lines of so many elements each.
ProductShape::Operand LinesOf(const BinderArguments& a, const View& view, int64_t line,
                              int64_t step = 0) {
  return {view.dtype, line, step, AlignmentOf(a.program, view, {line, step})};
}

absl::StatusOr<Choice> ChooseAlgorithm(const Gpu& gpu, const ProductShape& shape) {
  if (gpu.trials != nullptr) {
    absl::StatusOr<Choice> chosen = gpu.trials->Choose(shape);
    if (!absl::IsUnavailable(chosen.status())) return chosen;
  }
  return gpu.cublas_lt.Choose(shape);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Product>> BindProduct(const BinderArguments& a,
                                                           ProductShape shape) {
  shape.tf32 = a.gpu.tf32 && shape.a.dtype == device::DType::kF32 && shape.b.dtype == shape.a.dtype;
  const auto choose = [&] { return ChooseAlgorithm(a.gpu, shape); };
  return a.chooser.Get(shape.Key(), choose, [&](absl::string_view algorithm) {
    return a.gpu.cublas_lt.Load(shape, algorithm);
  });
}

ProductBias::ProductBias(const BinderArguments& a, const View& bias)
    : bias_(bias),
      is_copied_(bias_.present() && AlignmentOf(a.program, bias_, {}) < kBiasAlignment) {}

size_t ProductBias::workspace_bytes() const {
  if (!is_copied_) return 0;
  return RoundUp<size_t>(bias_.shape.elements() * device::SizeOf(bias_.dtype), kPlaceAlignment);
}

absl::StatusOr<const void*> ProductBias::Enqueue(const Frame& f) const {
  if (!bias_.present()) return nullptr;
  if (!is_copied_) return BytesOf(bias_, f);
  const kernels::CopyArgs copy = {.element = ElementOf(bias_),
                                  .rank = 1,
                                  .sizes = {bias_.shape.elements()},
                                  .x = BytesOf(bias_, f),
                                  .x_strides = {1},
                                  .result = f.workspace,
                                  .result_strides = {1}};
  RETURN_IF_ERROR(Launched(kernels::Copy(copy, f.stream), graph::Op::kLinear));
  return f.workspace;
}

ProductShape WeightProductShape(const BinderArguments& a) {
  const View &x = a.operand(0), &weight = a.operand(1);
  ProductShape shape;
  shape.columns = weight.shape[0];
  shape.depth = weight.shape[1];
  shape.rows = x.shape.elements() / shape.depth;
  shape.a = LinesOf(a, x, shape.depth);
  shape.b = LinesOf(a, weight, shape.depth);
  shape.result = {.dtype = x.dtype, .pitch = shape.columns};
  shape.b_transposed = true;
  shape.has_bias = a.operand(2).present();
  return shape;
}

absl::StatusOr<BoundKernel> BindWeightProduct(const BinderArguments& a,
                                              const LinearOperands& operands) {
  const View residual = operands.residual, y = a.result();
  const ProductBias bias(a, operands.bias);
  ProductShape shape = WeightProductShape(a);
  shape.result = LinesOf(a, y, shape.columns);
  shape.has_bias = operands.bias.present();
  shape.has_residual = residual.present();
  if (residual.present()) {
    const int64_t alignment = AlignmentOf(a.program, residual, {shape.columns});
    shape.result.alignment = std::min(shape.result.alignment, alignment);
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const Product> product, BindProduct(a, shape));
  BoundKernel kernel;
  kernel.workspace_bytes = bias.workspace_bytes() + product->workspace_bytes();
  kernel.enqueue = [=, of = operands](const Frame& f) -> absl::Status {
    ASSIGN_OR_RETURN(const void* const read, bias.Enqueue(f));
    return product->Enqueue({.a = BytesOf(of.x, f),
                             .b = BytesOf(of.weight, f),
                             .f8_scale = of.scale.present() ? BytesOf(of.scale, f) : nullptr,
                             .bias = read,
                             .residual = of.residual.present() ? BytesOf(of.residual, f) : nullptr,
                             .result = BytesOf(y, f),
                             .workspace = f.workspace + bias.workspace_bytes()},
                            f.stream);
  };
  return kernel;
}

absl::StatusOr<BoundKernel> BindLinear(const BinderArguments& a) {
  return BindWeightProduct(
      a,
      {.x = a.operand(0), .weight = a.operand(1), .bias = a.operand(2), .residual = a.operand(3)});
}

// The leading dimensions are a batch.
absl::StatusOr<BoundKernel> BindMatmul(const BinderArguments& a) {
  const View left = a.operand(0), right = a.operand(1), y = a.result();
  ProductShape shape;
  shape.rows = y.shape[-2];
  shape.columns = y.shape[-1];
  shape.depth = left.shape[-1];
  shape.batch = y.shape.elements() / (shape.rows * shape.columns);
  shape.a = LinesOf(a, left, shape.depth, shape.rows * shape.depth);
  shape.b = LinesOf(a, right, shape.columns, shape.depth * shape.columns);
  shape.result = LinesOf(a, y, shape.columns, shape.rows * shape.columns);
  ASSIGN_OR_RETURN(const std::shared_ptr<const Product> product, BindProduct(a, shape));
  BoundKernel kernel;
  kernel.workspace_bytes = product->workspace_bytes();
  kernel.enqueue = [=](const Frame& f) {
    return product->Enqueue({.a = BytesOf(left, f),
                             .b = BytesOf(right, f),
                             .result = BytesOf(y, f),
                             .workspace = f.workspace},
                            f.stream);
  };
  return kernel;
}

}  // namespace latentd::backends::cuda
