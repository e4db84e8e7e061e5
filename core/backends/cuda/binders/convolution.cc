#include "core/backends/cuda/binders/convolution.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "core/backends/cuda/binders/image_plans.h"
#include "core/backends/cuda/binders/packed_weight.h"
#include "core/backends/cuda/binders/product.h"
#include "core/backends/cuda/kernels/movement/patches.h"
#include "core/backends/cuda/kernels/movement/strided.h"
#include "core/backends/cuda/kernels/products/narrow_convolution.h"
#include "core/base/alignment.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cuda {
namespace {

using graph::Conv2dAttributes;

constexpr size_t kMostPatchBytes = size_t{128} << 20;

const Conv2dAttributes& AttributesOf(const BinderArguments& a) {
  return std::get<Conv2dAttributes>(a.instruction.attributes);
}

bool IsOfOnePixel(const BinderArguments& a) {
  const graph::Shape& weight = a.operand(1).shape;
  return weight[2] == 1 && weight[3] == 1 && AttributesOf(a).stride == 1 &&
         AttributesOf(a).padding == graph::Padding();
}

bool CudnnMayHaveIt(const BinderArguments& a) {
  const graph::Padding& padding = AttributesOf(a).padding;
  return CudnnReads(a) && padding.top == padding.bottom && padding.left == padding.right;
}

ConvolutionShape ShapeOf(const BinderArguments& a) {
  const graph::Shape &x = a.operand(0).shape, &weight = a.operand(1).shape;
  const Conv2dAttributes& conv = AttributesOf(a);
  return {.dtype = a.operand(0).dtype,
          .rows = x[0],
          .height = x[1],
          .width = x[2],
          .channels = x[3],
          .out = weight[0],
          .kernel_height = weight[2],
          .kernel_width = weight[3],
          .stride = conv.stride,
          .padding_height = conv.padding.top,
          .padding_width = conv.padding.left,
          .has_bias = a.operand(2).present(),
          .has_residual = a.operand(3).present()};
}

kernels::NarrowConvolutionArgs NarrowOf(const BinderArguments& a) {
  const graph::Shape &x = a.operand(0).shape, &weight = a.operand(1).shape;
  kernels::NarrowConvolutionArgs narrow;
  narrow.element = ElementOf(a.operand(0));
  narrow.rows = x[0];
  narrow.height = x[1];
  narrow.width = x[2];
  narrow.channels = x[3];
  narrow.out = weight[0];
  return narrow;
}

bool IsNarrow(const BinderArguments& a) {
  const graph::Shape& weight = a.operand(1).shape;
  const Conv2dAttributes& conv = AttributesOf(a);
  const bool keeps_size = weight[2] == 3 && weight[3] == 3 && conv.stride == 1 &&
                          conv.padding == graph::Padding{1, 1, 1, 1};
  return keeps_size && BeginAtWords(a) && !a.operand(3).present() && kernels::IsNarrow(NarrowOf(a));
}

BoundKernel BindNarrow(const BinderArguments& a) {
  const PackedWeight weight(a);
  BoundKernel kernel = weight.Reader();
  kernel.enqueue = [weight, narrow = NarrowOf(a), x = a.operand(0), bias = a.operand(2),
                    y = a.result()](const Frame& f) -> absl::Status {
    kernels::NarrowConvolutionArgs placed = narrow;
    ASSIGN_OR_RETURN(placed.weight, weight.Enqueue(f, f.workspace));
    placed.x = BytesOf(x, f);
    placed.bias = bias.present() ? BytesOf(bias, f) : nullptr;
    placed.result = BytesOf(y, f);
    return Launched(kernels::NarrowConvolution(placed, f.stream), graph::Op::kConv2d);
  };
  return kernel;
}

// One for each part of the images, in their order; empty: cuDNN does not have one of them, or an
// image is too large and cannot be cut.
absl::StatusOr<std::vector<ImagePlan>> ConvolutionPlansFor(const BinderArguments& a) {
  ConvolutionShape shape = ShapeOf(a);
  const lowering::ImageLines images = {
      .rows = shape.rows,
      .height = shape.height,
      .result_height = shape.result_height(),
      .kernel_height = shape.kernel_height,
      .stride = shape.stride,
      .padding = shape.padding_height,
      .line_elements = std::max(shape.width * shape.channels, shape.result_width() * shape.out)};
  std::vector<ImagePlan> plans;
  const std::vector<lowering::ImagePart> parts = lowering::ImagePartsOf(images);
  const int64_t of_lines = std::gcd(shape.width * shape.channels, shape.result_width() * shape.out);
  const bool aligned = of_lines * device::SizeOf(shape.dtype) % kPortAlignment == 0;
  if (parts.size() > 1 && !aligned) return plans;
  for (const lowering::ImagePart& part : parts) {
    shape.rows = part.rows;
    shape.height = part.lines;
    shape.padding_height = part.padding;
    ASSIGN_OR_RETURN(auto plan, CudnnPlanFor(a, shape));
    if (plan == nullptr) return std::vector<ImagePlan>();
    plans.push_back({std::move(plan), part.first_row, part.first_line, part.first_result_line});
  }
  return plans;
}

BoundKernel BindPlans(const BinderArguments& a, std::vector<ImagePlan> plans) {
  const PackedWeight weight(a);
  BoundKernel kernel = weight.Reader();
  kernel.workspace_bytes += WorkspaceBytesOf(plans);
  kernel.enqueue = [plans = std::move(plans), weight, x = a.operand(0), bias = a.operand(2),
                    residual = a.operand(3), y = a.result()](const Frame& f) -> absl::Status {
    ASSIGN_OR_RETURN(const char* const packed, weight.Enqueue(f, f.workspace));
    for (const ImagePlan& each : plans) {
      const int64_t row = each.first_row, line = each.first_result_line;
      std::array<void*, 5> addresses = {ImageAt(x, row, each.first_line, f),
                                        const_cast<char*>(packed)};
      size_t count = 2;
      if (bias.present()) addresses[count++] = BytesOf(bias, f);
      if (residual.present()) addresses[count++] = ImageAt(residual, row, line, f);
      addresses[count++] = ImageAt(y, row, line, f);
      RETURN_IF_ERROR(each.plan->Enqueue({addresses.data(), count},
                                         f.workspace + weight.workspace_bytes(), f.stream));
    }
    return absl::OkStatus();
  };
  return kernel;
}

// Operands of a convolution as products, of either op.
struct Convolved {
  Conv2dAttributes conv;
  View x, weight, scale, bias, residual;  // the scale of 8-bit floats
};

Convolved ConvolvedBy(const BinderArguments& a) {
  Convolved c = {.x = a.operand(0), .weight = a.operand(1)};
  const auto* const f8 = std::get_if<graph::F8Conv2dAttributes>(&a.instruction.attributes);
  c.conv = f8 == nullptr ? AttributesOf(a) : Conv2dAttributes{f8->stride, f8->padding, f8->layout};
  size_t next = 2;
  if (f8 != nullptr) c.scale = a.operand(next++);
  c.bias = a.operand(next++);
  c.residual = a.operand(next);
  return c;
}

// The product of some pixels' patches: which they are differs, how many does not.
ProductShape ProductOf(const BinderArguments& a, const Convolved& c, int64_t pixels) {
  const View &weight = c.weight, &y = a.result();
  const int64_t out = weight.shape[0], line = weight.shape.elements() / out;
  const auto lines = [](device::DType dtype, int64_t length, int64_t most) {
    return ProductShape::Operand{dtype, length, 0, std::gcd(most, length * device::SizeOf(dtype))};
  };
  ProductShape shape;
  shape.rows = pixels;
  shape.columns = out;
  shape.depth = line;
  shape.a = lines(weight.dtype, line, 256);
  shape.b = lines(weight.dtype, line, 256);
  shape.b_transposed = true;
  shape.result = lines(y.dtype, out, AlignmentOf(a.program, y, {out}));
  shape.has_bias = c.bias.present();
  shape.has_residual = c.residual.present();
  if (shape.has_residual) {
    const int64_t alignment = AlignmentOf(a.program, c.residual, {out});
    shape.result.alignment = std::min(shape.result.alignment, alignment);
  }
  return shape;
}

kernels::PatchesArgs PatchesOf(const BinderArguments& a, const Convolved& c) {
  const graph::Shape &x = c.x.shape, &weight = c.weight.shape, &y = a.result().shape;
  kernels::PatchesArgs patches;
  patches.element = ElementOf(c.x);
  patches.height = x[1];
  patches.width = x[2];
  patches.channels = x[3];
  patches.kernel_height = weight[2];
  patches.kernel_width = weight[3];
  patches.stride = c.conv.stride;
  patches.top = c.conv.padding.top;
  patches.left = c.conv.padding.left;
  patches.result_height = y[1];
  patches.result_width = y[2];
  return patches;
}

}  // namespace

absl::StatusOr<BoundKernel> BindConvolutionAsProducts(const BinderArguments& a) {
  const Convolved c = ConvolvedBy(a);
  const int64_t out = c.weight.shape[0], bytes = device::SizeOf(a.result().dtype);
  const int64_t line = c.weight.shape.elements() / out * device::SizeOf(c.weight.dtype);
  const int64_t pixels = a.result().shape.elements() / out;
  const int64_t most = std::clamp<int64_t>(static_cast<int64_t>(kMostPatchBytes) / line, 1, pixels);
  const int64_t rest = pixels % most;
  ASSIGN_OR_RETURN(const std::shared_ptr<const Product> product,
                   BindProduct(a, ProductOf(a, c, most)));
  std::shared_ptr<const Product> last = product;
  if (rest != 0) {
    ASSIGN_OR_RETURN(last, BindProduct(a, ProductOf(a, c, rest)));
  }
  const ProductBias bias(a, c.bias);
  const PackedWeight weight(a);
  const size_t weight_at = bias.workspace_bytes();
  const size_t patches_at = weight_at + weight.workspace_bytes();
  const size_t products_at = patches_at + RoundUp<size_t>(most * line, 256);
  BoundKernel kernel = weight.Reader();
  kernel.workspace_bytes =
      products_at + std::max(product->workspace_bytes(), last->workspace_bytes());
  kernel.enqueue = [=, patches = PatchesOf(a, c), x = c.x, scale = c.scale, residual = c.residual,
                    y = a.result(), op = a.instruction.op](const Frame& f) -> absl::Status {
    ASSIGN_OR_RETURN(const void* const read, bias.Enqueue(f));
    ASSIGN_OR_RETURN(const char* const packed, weight.Enqueue(f, f.workspace + weight_at));
    kernels::PatchesArgs placed = patches;
    placed.x = BytesOf(x, f);
    placed.result = f.workspace + patches_at;
    for (int64_t first = 0; first < pixels; first += most) {
      placed.first = first;
      placed.size = std::min(most, pixels - first);
      RETURN_IF_ERROR(Launched(kernels::Patches(placed, f.stream), op));
      const int64_t at = first * out * bytes;
      RETURN_IF_ERROR(
          (placed.size == most ? product : last)
              ->Enqueue({.a = placed.result,
                         .b = packed,
                         .f8_scale = scale.present() ? BytesOf(scale, f) : nullptr,
                         .bias = read,
                         .residual = residual.present() ? BytesOf(residual, f) + at : nullptr,
                         .result = BytesOf(y, f) + at,
                         .workspace = f.workspace + products_at},
                        f.stream));
    }
    return absl::OkStatus();
  };
  return kernel;
}

absl::StatusOr<BoundKernel> BindConvolution(const BinderArguments& a) {
  if (IsOfOnePixel(a)) return BindLinear(a);
  if (IsNarrow(a)) return BindNarrow(a);
  if (!CudnnMayHaveIt(a)) return BindConvolutionAsProducts(a);
  ASSIGN_OR_RETURN(std::vector<ImagePlan> plans, ConvolutionPlansFor(a));
  if (plans.empty()) return BindConvolutionAsProducts(a);
  return BindPlans(a, std::move(plans));
}

}  // namespace latentd::backends::cuda
