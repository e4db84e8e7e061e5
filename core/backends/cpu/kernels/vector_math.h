// exp, erf and what is made of them, on whole vectors. Relative error of Exp: below 2e-7; absolute
// error of Erf: below 5e-7. NaN stays NaN.
#pragma once

#include "core/backends/cpu/kernels/vector.h"

namespace latentd::backends::cpu::LATENTD_ISA {

// e^x = 2^n e^r with n = round(x / ln 2) and |r| <= ln 2 / 2; e^r by its Taylor polynomial, whose
// last kept term is r^7 / 5040. Below -87 the result is e^-87, above 88 it is e^88.
static inline Vector Exp(Vector x) {
  x = x < -87.0f ? Broadcast(-87.0f) : x;
  x = x > 88.0f ? Broadcast(88.0f) : x;
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
  const Vector shifted = x * 1.44269504f + 12582912.0f;
  const Vector n = shifted - 12582912.0f;
  // ln 2 in two parts, the first of few bits, so that n times it is exact.
  const Vector r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vector p = r * (1.0f / 5040) + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const IntVector power = (__builtin_bit_cast(IntVector, shifted) + 127) << 23;
  return p * __builtin_bit_cast(Vector, power);
}

// Abramowitz and Stegun, formula 7.1.26.
static inline Vector Erf(Vector x) {
  const Vector a = x < 0 ? -x : x;
  const Vector t = 1.0f / (1.0f + 0.3275911f * a);
  Vector p = t * 1.061405429f - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const Vector e = 1.0f - p * t * Exp(-a * a);
  return x < 0 ? -e : e;
}

static inline Vector Silu(Vector x) { return x / (1.0f + Exp(-x)); }
static inline Vector Gelu(Vector x) { return 0.5f * x * (1.0f + Erf(x * 0.707106781f)); }
static inline Vector QuickGelu(Vector x) { return x / (1.0f + Exp(-1.702f * x)); }
static inline Vector Relu(Vector x) { return x < 0 ? Vector{} : x; }
static inline Vector Tanh(Vector x) { return 1.0f - 2.0f / (1.0f + Exp(2.0f * x)); }

// To half a unit of the last place at all sizes, as diffusers computes standard deviations.
static inline Vector ExactExp(Vector x) {
  for (int i = 0; i < kWidth; ++i) x[i] = __builtin_expf(x[i]);
  return x;
}

}  // namespace latentd::backends::cpu::LATENTD_ISA
