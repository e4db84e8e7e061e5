// Casts between dtypes, and time steps into sinusoids: small work, done in plain code.
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/backends/cpu/binders.h"

namespace latentd::backends::cpu {
namespace {

using device::DType;

float FromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Round to nearest, ties to even; NaN stays NaN.
uint16_t ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float FromF16(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const float sign = bits >> 15 != 0 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

uint16_t ToF16(float value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const float size = std::fabs(value);
  if (std::isnan(value)) return 0x7e00;
  if (size >= 65520.0f) return sign | 0x7c00;
  if (size < 6.103515625e-05f) {  // subnormal: multiples of 2^-24
    return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(size, 24)));
  }
  int exponent;
  const float fraction = std::frexp(size, &exponent);  // in [0.5, 1)
  // A mantissa that rounds up to 2048 carries into the exponent, which is what should happen.
  const auto mantissa = static_cast<int>(std::nearbyint(std::ldexp(fraction, 11))) - 1024;
  return sign | static_cast<uint16_t>(((exponent + 14) << 10) + mantissa);
}

float ReadAs(DType dtype, const void* from, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<const float*>(from)[i];
    case DType::kF16:
      return FromF16(static_cast<const uint16_t*>(from)[i]);
    case DType::kBF16:
      return FromBf16(static_cast<const uint16_t*>(from)[i]);
    case DType::kI64:
      return static_cast<float>(static_cast<const int64_t*>(from)[i]);
    case DType::kU8:
      return static_cast<const uint8_t*>(from)[i];
  }
  return 0;
}

// To a float dtype.
void WriteAs(DType dtype, float value, void* to, int64_t i) {
  if (dtype == DType::kF32) static_cast<float*>(to)[i] = value;
  if (dtype == DType::kF16) static_cast<uint16_t*>(to)[i] = ToF16(value);
  if (dtype == DType::kBF16) static_cast<uint16_t*>(to)[i] = ToBf16(value);
}

void Convert(const View& x, const View& y, const Frame& f) {
  const void* from = AddressOf<char>({x.storage}, f) + x.offset * device::SizeOf(x.dtype);
  void* to = AddressOf<char>({y.storage}, f) + y.offset * device::SizeOf(y.dtype);
  if (x.dtype == y.dtype) {
    std::memcpy(to, from, x.shape.elements() * device::SizeOf(x.dtype));
    return;
  }
#pragma omp parallel for schedule(static) if (x.shape.elements() > 65536)
  for (int64_t i = 0; i < x.shape.elements(); ++i) {
    WriteAs(y.dtype, ReadAs(x.dtype, from, i), to, i);
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
  kernel.run = [x = a.operand(0), y = a.result()](const Frame& f) {
    Convert(x, y, f);
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
