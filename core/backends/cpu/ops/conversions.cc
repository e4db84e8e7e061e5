// Casts between dtypes, and time steps into sinusoids.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/backends/cpu/binding/binders.h"
#include "core/backends/cpu/binding/element.h"

namespace latentd::backends::cpu {
namespace {

using device::DType;

// The bits of the f16 that has an e4m3's value: its exponent's bias is 8 more.
constexpr uint16_t HalfOfE4M3(int code) {
  const int sign = (code & 0x80) << 8, magnitude = code & 0x7F;
  if (magnitude == 0) return static_cast<uint16_t>(sign);
  if (magnitude == 0x7F) return static_cast<uint16_t>(sign | 0x7E00);  // NaN
  int exponent = magnitude >> 3, mantissa = magnitude & 7;
  if (exponent == 0) {  // a subnormal number, which f16 has as a normal one
    for (exponent = 1; mantissa < 8; mantissa <<= 1) --exponent;
  }
  return static_cast<uint16_t>(sign | (exponent + 8) << 10 | (mantissa & 7) << 7);
}

using Halves = std::array<uint16_t, 256>;

constexpr Halves HalvesOf(DType dtype) {
  Halves halves = {};
  for (int code = 0; code < 256; ++code) {
    halves[code] = dtype == DType::kF8E4M3 ? HalfOfE4M3(code) : static_cast<uint16_t>(code << 8);
  }
  return halves;
}

// The f16 of each code.
constexpr Halves kE4M3 = HalvesOf(DType::kF8E4M3), kE5M2 = HalvesOf(DType::kF8E5M2);

// 8-bit floats, by way of f16.
void ConvertF8(const Halves& halves, const void* x, DType dtype, char* y, int64_t size,
               const KernelTable& table) {
  constexpr int64_t kChunk = 1024;
#pragma omp parallel for schedule(static) if (size > 65536)
  for (int64_t begin = 0; begin < size; begin += kChunk) {
    uint16_t values[kChunk];
    const int64_t count = std::min(kChunk, size - begin);
    std::transform(static_cast<const uint8_t*>(x) + begin,
                   static_cast<const uint8_t*>(x) + begin + count, values,
                   [&](uint8_t code) { return halves[code]; });
    table.convert(Element::kF16, ElementOf(dtype), values, y + begin * device::SizeOf(dtype),
                  count);
  }
}

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
  } else if (device::IsF8(x.dtype)) {
    ConvertF8(x.dtype == DType::kF8E4M3 ? kE4M3 : kE5M2, from, y.dtype, to, size, table);
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
