// Functions of one number. What rounds to f16 or bf16 is computed to 2^-17 of itself or 1e-35,
// which costs a fraction of what CUDA's own functions do; f32 has those.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/backends/cuda/kernels/common/numbers.cuh"
#include "core/backends/cuda/kernels/values/elementwise.h"

namespace latentd::backends::cuda::kernels {

// One instruction each, to 2^-22 of the result or 1e-38.
__device__ inline float FastExp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float FastReciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

inline constexpr float kLog2E = 1.44269504f;

template <typename T>
__device__ inline float Exp(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return expf(x);
  } else {
    return FastExp2(x * kLog2E);
  }
}

// x / (1 + exp(-slope x))
template <typename T>
__device__ inline float Swish(float x, float slope) {
  if constexpr (std::is_same_v<T, float>) {
    return x / (1 + expf(-slope * x));
  } else {
    return x * FastReciprocal(1 + FastExp2(x * (-slope * kLog2E)));
  }
}

// x Phi(x). For the 2-byte types Phi(-|x|) is exp(-t^2) P(q) / (1 + 2 t), with t = |x| / sqrt(2)
// and a Chebyshev interpolation P of degree 7 in q = (t - 2) / (t + 2), off by 1.5e-6 of itself.
template <typename T>
__device__ inline float Gelu(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x * normcdff(x);
  } else {
    const float t = fminf(fabsf(x) * 0.707106781f, 10);
    const float q = (t - 2) * FastReciprocal(t + 2);
    float p = 0.002006525688710928f;
    p = fmaf(p, q, 0.00776952817750531f);
    p = fmaf(p, q, -0.008815655952148366f);
    p = fmaf(p, q, -0.05404658920687602f);
    p = fmaf(p, q, 0.16424980840384723f);
    p = fmaf(p, q, -0.16603631943674582f);
    p = fmaf(p, q, -0.09277625625218566f);
    p = fmaf(p, q, 1.2769783101277583f);
    const float tail = 0.5f * p * FastExp2(-t * t * kLog2E) * FastReciprocal(fmaf(2, t, 1));
    return x * (x < 0 ? tail : 1 - tail);
  }
}

// The same to 2^-16 of itself or 1e-15 of x, in half of the time: for what tensor cores wait for.
// Phi(-t) is 2 to the power of an interpolation of degree 8, off by 2^-16.7 of itself up to t = 8.
__device__ inline float FastGelu(float x) {
  const float t = fminf(fabsf(x), 8);
  float p = 7.428393899999719e-08f;
  p = fmaf(p, t, -3.655326054285979e-06f);
  p = fmaf(p, t, 7.95740561443381e-05f);
  p = fmaf(p, t, -0.0010219757677987218f);
  p = fmaf(p, t, 0.00876216497272253f);
  p = fmaf(p, t, -0.05433734506368637f);
  p = fmaf(p, t, -0.45819565653800964f);
  p = fmaf(p, t, -1.1513218879699707f);
  p = fmaf(p, t, -0.9999923706054688f);
  return fmaf(-fabsf(x), FastExp2(p), fmaxf(x, 0));
}

// The same to 2^-11 of itself or 1e-9 of x: for what rounds to e4m3. A polynomial of degree 5, off
// by 2^-11.4 up to t = 6.
__device__ inline float GeluForF8(float x) {
  const float t = fminf(fabsf(x), 6);
  float p = -0.00020168449555058032f;
  p = fmaf(p, t, 0.004467607010155916f);
  p = fmaf(p, t, -0.042832739651203156f);
  p = fmaf(p, t, -0.47278568148612976f);
  p = fmaf(p, t, -1.144399642944336f);
  p = fmaf(p, t, -1.000531792640686f);
  return fmaf(-fabsf(x), FastExp2(p), fmaxf(x, 0));
}

template <typename T>
__device__ inline float Evaluate(UnaryFunction function, float x) {
  switch (function) {
    case UnaryFunction::kSilu:
      return Swish<T>(x, 1);
    case UnaryFunction::kGelu:
      return Gelu<T>(x);
    case UnaryFunction::kQuickGelu:
      return Swish<T>(x, 1.702f);
    case UnaryFunction::kRelu:
      return x < 0 ? 0 : x;
    case UnaryFunction::kTanh:
      return tanhf(x);
    case UnaryFunction::kExp:
      return expf(x);
    case UnaryFunction::kIdentity:
      return x;
  }
  return x;
}

}  // namespace latentd::backends::cuda::kernels
