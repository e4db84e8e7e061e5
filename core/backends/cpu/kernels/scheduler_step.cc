// The next state of a noise scheduler: a matrix of 4 x 6 for each row, times six values an element.
#include "core/backends/cpu/kernels/instruction_set.h"
#include "core/backends/cpu/kernels/vector.h"

namespace latentd::backends::cpu::LATENTD_ISA {
namespace {

// Below this many elements a second thread costs more than it brings.
constexpr int64_t kSerial = 4096;

// Layout of a line: (timestep, input scale, flag that noise is drawn, matrix).
constexpr int64_t kStates = 4, kCombined = 6, kDrawsNoise = 2, kMatrix = 3, kLine = 27;

// a * b + c, rounded once: by the library where the instruction set cannot.
static inline Vector Fused(Vector a, Vector b, Vector c) {
  Vector sum;
  for (int i = 0; i < kWidth; ++i) sum[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return sum;
}

struct Row {
  const float* state;
  const float* output;
  const float* noise;
  const float* line;
  float* next;
  int64_t elements;  // from one of the four parts of the state to the next
};

// `count` elements from `begin` on. What is read of a vector of elements is read before any of it
// is written.
void StepElements(const Row& row, int64_t begin, int64_t count) {
  const bool draws_noise = row.line[kDrawsNoise] != 0;
  ForEachVector(count, [&](int64_t i, auto part) {
    const int64_t at = begin + i;
    Vector combined[kCombined];
    for (int64_t k = 0; k < kStates; ++k) {
      combined[k] = Load(row.state + k * row.elements + at, part);
    }
    combined[kStates] = Load(row.output + at, part);
    combined[kStates + 1] = draws_noise ? Load(row.noise + at, part) : Vector{};
    for (int64_t k = 0; k < kStates; ++k) {
      const float* matrix = row.line + kMatrix + k * kCombined;
      Vector sum{};
      for (int64_t j = 0; j < kCombined; ++j) {
        sum = Fused(Broadcast(matrix[j]), combined[j], sum);
      }
      Store(row.next + k * row.elements + at, sum, part);
    }
  });
}

}  // namespace

void SchedulerStep(const SchedulerStepArguments& a) {
  const int64_t pieces = (a.elements + kSerial - 1) / kSerial;
#pragma omp parallel for schedule(static) if (a.rows * a.elements > kSerial)
  for (int64_t i = 0; i < a.rows * pieces; ++i) {
    const int64_t row = i / pieces, begin = i % pieces * kSerial;
    const int64_t count = begin + kSerial < a.elements ? kSerial : a.elements - begin;
    StepElements({a.state + row * kStates * a.elements, a.output + row * a.elements,
                  a.noise + row * a.elements, a.line + row * kLine,
                  a.next + row * kStates * a.elements, a.elements},
                 begin, count);
  }
}

}  // namespace latentd::backends::cpu::LATENTD_ISA
