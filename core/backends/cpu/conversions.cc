// Casts between dtypes, and time steps into sinusoids.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/backends/cpu/binders.h"
#include "core/backends/cpu/element.h"

namespace latentd::backends::cpu {
namespace {

using device::DType;

// Integers, by way of floats.
template <typename T>
void ConvertIntegers(const void* x, DType dtype, char* y, int64_t size, const KernelTable& table) {
  constexpr int64_t kChunk = 1024;
#pragma omp parallel for schedule(static) if (size > 65536)
  for (int64_t begin = 0; begin < size; begin += kChunk) {
    float values[kChunk];
    const int64_t count = std::min(kChunk, size - begin);
    std::copy_n(static_cast<const T*>(x) + begin, count, values);
    table.convert(Element::kF32, ElementOf(dtype), values, y + begin * device::SizeOf(dtype),
                  count);
  }
}

void Convert(const View& x, const View& y, const KernelTable& table, const Frame& f) {
  const char* from = BytesOf(x, f);
  char* to = BytesOf(y, f);
  const int64_t size = x.shape.elements();
  if (x.dtype == y.dtype) {
    std::memcpy(to, from, size * device::SizeOf(x.dtype));
  } else if (x.dtype == DType::kI64) {
    ConvertIntegers<int64_t>(from, y.dtype, to, size, table);
  } else if (x.dtype == DType::kU8) {
    ConvertIntegers<uint8_t>(from, y.dtype, to, size, table);
  } else {
    table.convert(ElementOf(x.dtype), ElementOf(y.dtype), from, to, size);
  }
}

void EmbedTimesteps(const graph::TimestepEmbeddingAttributes& a, const View& x, const View& y,
                    const Frame& f) {
  const auto* timesteps = AddressOf<const float>(x, f);
  auto* to = AddressOf<float>(y, f);
  const int64_t half = a.dim / 2;
  for (int64_t row = 0; row < x.shape[0]; ++row, to += a.dim) {
    for (int64_t i = 0; i < half; ++i) {
      // In float, as diffusers computes it.
      const auto exponent =
          static_cast<float>(i) *
          static_cast<float>(-std::log(10000.0) / (half - a.downscale_freq_shift));
      const float angle = timesteps[row] * std::exp(exponent);
      to[i] = a.flip_sin_to_cos ? std::cos(angle) : std::sin(angle);
      to[half + i] = a.flip_sin_to_cos ? std::sin(angle) : std::cos(angle);
    }
    if (a.dim % 2 != 0) to[a.dim - 1] = 0;
  }
}

}  // namespace

absl::StatusOr<BoundKernel> BindCast(const BinderArguments& a) {
  const DType to = a.result().dtype;
  if (to != a.operand(0).dtype && (to == DType::kI64 || to == DType::kU8)) {
    return absl::UnimplementedError(
        absl::StrCat("the CPU backend does not cast to ", device::Name(to)));
  }
  BoundKernel kernel;
  kernel.run = [x = a.operand(0), y = a.result(), table = a.machine.kernels](const Frame& f) {
    Convert(x, y, *table, f);
    return absl::OkStatus();
  };
  return kernel;
}

absl::StatusOr<BoundKernel> BindToPixels(const BinderArguments& a) {
  BoundKernel kernel;
  kernel.run = [x = a.operand(0), y = a.result(),
                run = a.machine.kernels->to_pixels](const Frame& f) {
    run(ElementOf(x.dtype), BytesOf(x, f), AddressOf<uint8_t>(y, f), x.shape.elements());
    return absl::OkStatus();
  };
  return kernel;
}

absl::StatusOr<BoundKernel> BindTimestepEmbedding(const BinderArguments& a) {
  BoundKernel kernel;
  kernel.run = [x = a.operand(0), y = a.result(),
                attributes = std::get<graph::TimestepEmbeddingAttributes>(
                    a.instruction.attributes)](const Frame& f) {
    EmbedTimesteps(attributes, x, y, f);
    return absl::OkStatus();
  };
  return kernel;
}

}  // namespace latentd::backends::cpu
