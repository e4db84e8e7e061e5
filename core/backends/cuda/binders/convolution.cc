// Convolutions: of one pixel as a matrix product; 3x3 ones that keep an image's size and have few
// channels on one side by a kernel of our own, in f16 and bf16; else by cuDNN where it has the
// shape, else as a product with patches of the image, some pixels at a time. In f32 always as a
// product, unless it may be rounded to TF32: cuDNN would do so or has no fast one.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "core/backends/cuda/binders/image_plans.h"
#include "core/backends/cuda/binders/packing.h"
#include "core/backends/cuda/binders/product.h"
#include "core/backends/cuda/kernels/narrow_convolution.h"
#include "core/backends/cuda/kernels/patches.h"
#include "core/backends/cuda/kernels/strided.h"
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

// The weight as kernels read it: packed when it was loaded, or in each run in the workspace.
class PackedWeight {
 public:
  explicit PackedWeight(const BinderArguments& a)
      : weight_(a.operand(1)), is_held_(a.weight_is_held()) {}

  int64_t bytes() const { return weight_.shape.elements() * device::SizeOf(weight_.dtype); }
  size_t workspace_bytes() const { return is_held_ ? 0 : RoundUp<size_t>(bytes(), 256); }
  // A kernel that reads it and needs nothing else yet.
  BoundKernel Reader() const {
    BoundKernel kernel;
    kernel.workspace_bytes = workspace_bytes();
    if (is_held_) {
      kernel.packing =
          weights::WeightFormat{std::string(kChannelsLastForm), static_cast<size_t>(bytes()), 0};
    }
    return kernel;
  }

  // Its address; `workspace` is written where it has to be packed.
  absl::StatusOr<const char*> Enqueue(const Frame& f, char* workspace) const {
    if (is_held_) return static_cast<const char*>(f.packed);
    RETURN_IF_ERROR(
        PackChannelsLast(weight_.dtype, weight_.shape, BytesOf(weight_, f), workspace, f.stream));
    return workspace;
  }

 private:
  const View weight_;
  const bool is_held_;
};

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

BoundKernel BindPlans(const BinderArguments& a, std::vector<ImagePlan> plans) {
  const PackedWeight weight(a);
  BoundKernel kernel = weight.Reader();
  kernel.workspace_bytes += WorkspaceBytesOf(plans);
  kernel.enqueue = [plans = std::move(plans), weight, x = a.operand(0), bias = a.operand(2),
                    residual = a.operand(3), y = a.result()](const Frame& f) -> absl::Status {
    ASSIGN_OR_RETURN(const char* const packed, weight.Enqueue(f, f.workspace));
    for (const auto& [plan, row] : plans) {
      std::array<void*, 5> addresses = {ImageAt(x, row, f), const_cast<char*>(packed)};
      size_t count = 2;
      if (bias.present()) addresses[count++] = BytesOf(bias, f);
      if (residual.present()) addresses[count++] = ImageAt(residual, row, f);
      addresses[count++] = ImageAt(y, row, f);
      RETURN_IF_ERROR(plan->Enqueue({addresses.data(), count},
                                    f.workspace + weight.workspace_bytes(), f.stream));
    }
    return absl::OkStatus();
  };
  return kernel;
}

// The product of some pixels' patches: which they are differs, how many does not.
ProductShape ProductOf(const BinderArguments& a, int64_t pixels) {
  const View &weight = a.operand(1), &y = a.result();
  const int64_t out = weight.shape[0], line = weight.shape.elements() / out;
  const auto lines = [&](int64_t length, int64_t most) {
    const int64_t bytes = device::SizeOf(weight.dtype);
    return ProductShape::Operand{weight.dtype, length, 0, std::gcd(most, length * bytes)};
  };
  ProductShape shape;
  shape.rows = pixels;
  shape.columns = out;
  shape.depth = line;
  shape.a = lines(line, 256);
  shape.b = lines(line, 256);
  shape.b_transposed = true;
  shape.result = lines(out, AlignmentOf(a.program, y, {out}));
  shape.has_bias = a.operand(2).present();
  shape.has_residual = a.operand(3).present();
  if (shape.has_residual) {
    const int64_t alignment = AlignmentOf(a.program, a.operand(3), {out});
    shape.result.alignment = std::min(shape.result.alignment, alignment);
  }
  return shape;
}

kernels::PatchesArgs PatchesOf(const BinderArguments& a) {
  const graph::Shape &x = a.operand(0).shape, &weight = a.operand(1).shape, &y = a.result().shape;
  kernels::PatchesArgs patches;
  patches.element = ElementOf(a.operand(0));
  patches.height = x[1];
  patches.width = x[2];
  patches.channels = x[3];
  patches.kernel_height = weight[2];
  patches.kernel_width = weight[3];
  patches.stride = AttributesOf(a).stride;
  patches.top = AttributesOf(a).padding.top;
  patches.left = AttributesOf(a).padding.left;
  patches.result_height = y[1];
  patches.result_width = y[2];
  return patches;
}

absl::StatusOr<BoundKernel> BindProducts(const BinderArguments& a) {
  const int64_t out = a.operand(1).shape[0], bytes = device::SizeOf(a.result().dtype);
  const int64_t line = a.operand(1).shape.elements() / out * bytes;
  const int64_t pixels = a.result().shape.elements() / out;
  const int64_t most = std::clamp<int64_t>(static_cast<int64_t>(kMostPatchBytes) / line, 1, pixels);
  const int64_t rest = pixels % most;
  ASSIGN_OR_RETURN(const std::shared_ptr<const Product> product,
                   BindProduct(a, ProductOf(a, most)));
  std::shared_ptr<const Product> last = product;
  if (rest != 0) {
    ASSIGN_OR_RETURN(last, BindProduct(a, ProductOf(a, rest)));
  }
  const ProductBias bias(a, a.operand(2));
  const PackedWeight weight(a);
  const size_t weight_at = bias.workspace_bytes();
  const size_t patches_at = weight_at + weight.workspace_bytes();
  const size_t products_at = patches_at + RoundUp<size_t>(most * line, 256);
  BoundKernel kernel = weight.Reader();
  kernel.workspace_bytes =
      products_at + std::max(product->workspace_bytes(), last->workspace_bytes());
  kernel.enqueue = [=, patches = PatchesOf(a), x = a.operand(0), residual = a.operand(3),
                    y = a.result()](const Frame& f) -> absl::Status {
    ASSIGN_OR_RETURN(const void* const read, bias.Enqueue(f));
    ASSIGN_OR_RETURN(const char* const packed, weight.Enqueue(f, f.workspace + weight_at));
    kernels::PatchesArgs placed = patches;
    placed.x = BytesOf(x, f);
    placed.result = f.workspace + patches_at;
    for (int64_t first = 0; first < pixels; first += most) {
      placed.first = first;
      placed.size = std::min(most, pixels - first);
      RETURN_IF_ERROR(Launched(kernels::Patches(placed, f.stream), graph::Op::kConv2d));
      const int64_t at = first * out * bytes;
      RETURN_IF_ERROR(
          (placed.size == most ? product : last)
              ->Enqueue({.a = placed.result,
                         .b = packed,
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

}  // namespace

absl::StatusOr<BoundKernel> BindConvolution(const BinderArguments& a) {
  if (IsOfOnePixel(a)) return BindLinear(a);
  if (IsNarrow(a)) return BindNarrow(a);
  if (!CudnnMayHaveIt(a)) return BindProducts(a);
  const ConvolutionShape shape = ShapeOf(a);
  const int64_t of_result = shape.result_height() * shape.result_width() * shape.out;
  ASSIGN_OR_RETURN(
      std::vector<ImagePlan> plans,
      ImagePlansFor(a, shape, std::max(shape.height * shape.width * shape.channels, of_result)));
  if (plans.empty()) return BindProducts(a);
  return BindPlans(a, std::move(plans));
}

}  // namespace latentd::backends::cuda
