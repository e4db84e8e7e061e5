// Norms over the last dimension, one row after the other, and what is said of whole rows: their
// standard deviation, whether they are finite.
#include "core/backends/cpu/kernels/instruction_set.h"
#include "core/backends/cpu/kernels/vector_math.h"

namespace latentd::backends::cpu::LATENTD_ISA {
namespace {

// Below this many elements a second thread costs more than it brings.
constexpr int64_t kSerial = 4096;

template <typename T>
void LayerNormRow(const T* __restrict x, T* __restrict y, const float* gamma, const float* beta,
                  int64_t size, float epsilon) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < size; ++i) sum += Float(x[i]);
  const float mean = sum / static_cast<float>(size);
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < size; ++i) {
    squares += (Float(x[i]) - mean) * (Float(x[i]) - mean);
  }
  const float inverse = 1.0f / __builtin_sqrtf(squares / static_cast<float>(size) + epsilon);
  for (int64_t i = 0; i < size; ++i) {
    Assign(y + i, (Float(x[i]) - mean) * inverse * gamma[i] + beta[i]);
  }
}

void SoftmaxRow(const float* __restrict x, float* __restrict y, int64_t size) {
  float top = x[0];
#pragma omp simd reduction(max : top)
  for (int64_t i = 0; i < size; ++i) top = x[i] > top ? x[i] : top;
  ForEachVector(size,
                [&](int64_t i, auto part) { Store(y + i, Exp(Load(x + i, part) - top), part); });
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < size; ++i) sum += y[i];
  const float inverse = 1.0f / sum;
  for (int64_t i = 0; i < size; ++i) y[i] *= inverse;
}

// Sums of x - pivot and its square, over chunks in float and over those in double. NaN of a row
// with one.
float StdOfRow(const float* x, int64_t size) {
  const float pivot = x[0];
  double first = 0, second = 0;
  for (int64_t from = 0; from < size; from += 1024) {
    const int64_t to = from + 1024 < size ? from + 1024 : size;
    float a = 0, b = 0;
#pragma omp simd reduction(+ : a, b)
    for (int64_t i = from; i < to; ++i) {
      const float d = x[i] - pivot;
      a += d;
      b += d * d;
    }
    first += a;
    second += b;
  }
  const double squares = second - first * first / static_cast<double>(size);
  return static_cast<float>(
      __builtin_sqrt((squares < 0 ? 0 : squares) / static_cast<double>(size - 1)));
}

// True if all are finite; by several threads, since one would read whole rows for too long.
template <typename T>
bool AllFinite(const T* x, int64_t size) {
  int other = 0;
#pragma omp parallel for simd schedule(static) reduction(| : other) if (size > kSerial)
  for (int64_t i = 0; i < size; ++i) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, Float(x[i]));
    other |= (bits & 0x7f800000) == 0x7f800000;
  }
  return other == 0;
}

template <typename T>
void LayerNormRows(const T* x, T* y, const float* gamma, const float* beta, int64_t rows,
                   int64_t size, float epsilon) {
#pragma omp parallel for schedule(static) if (rows * size > kSerial)
  for (int64_t row = 0; row < rows; ++row) {
    LayerNormRow(x + row * size, y + row * size, gamma, beta, size, epsilon);
  }
}

}  // namespace

void LayerNorm(Element element, const void* x, void* y, const float* gamma, const float* beta,
               int64_t rows, int64_t size, float epsilon) {
  element == Element::kBF16 ? LayerNormRows(static_cast<const Bf16*>(x), static_cast<Bf16*>(y),
                                            gamma, beta, rows, size, epsilon)
                            : LayerNormRows(static_cast<const float*>(x), static_cast<float*>(y),
                                            gamma, beta, rows, size, epsilon);
}

void Softmax(const float* x, float* y, int64_t rows, int64_t size) {
#pragma omp parallel for schedule(static) if (rows * size > kSerial)
  for (int64_t row = 0; row < rows; ++row) SoftmaxRow(x + row * size, y + row * size, size);
}

void RowStd(const float* x, float* y, int64_t rows, int64_t size) {
#pragma omp parallel for schedule(static) if (rows * size > kSerial)
  for (int64_t row = 0; row < rows; ++row) y[row] = StdOfRow(x + row * size, size);
}

void IsFinite(Element element, const void* x, uint8_t* y, int64_t rows, int64_t size) {
  for (int64_t row = 0; row < rows; ++row) {
    y[row] = element == Element::kBF16 ? AllFinite(static_cast<const Bf16*>(x) + row * size, size)
                                       : AllFinite(static_cast<const float*>(x) + row * size, size);
  }
}

}  // namespace latentd::backends::cpu::LATENTD_ISA
