#include "core/backends/cuda/kernels/values/sampling.h"

#include <cmath>

#include "tests/core/backends/cuda/gpu_array.h"

namespace latentd::backends::cuda::kernels {
namespace {

using SamplingTest = GpuTest;

TEST_F(SamplingTest, TimestepsAreEmbeddedAsInFloat) {
  for (int64_t dim : {2, 7, 320}) {
    for (bool cosines_first : {true, false}) {
      const Values timesteps = Rounded(Element::kF32, {0, 1, 13.25, 999});
      const int64_t half = dim / 2;
      const float step = -std::log(10000.0) / half;
      Values exact;
      for (double timestep : timesteps) {
        const size_t first = exact.size();
        exact.resize(first + dim, 0);
        for (int64_t i = 0; i < half; ++i) {
          const float exponent = static_cast<float>(i) * step;
          const auto frequency = static_cast<float>(std::exp(static_cast<double>(exponent)));
          const double angle = static_cast<float>(timestep) * frequency;
          exact[first + i] = cosines_first ? std::cos(angle) : std::sin(angle);
          exact[first + half + i] = cosines_first ? std::sin(angle) : std::cos(angle);
        }
      }
      const GpuArray from(Element::kF32, timesteps);
      const GpuArray to = GpuArray::Poisoned(Element::kF32, exact.size());
      ASSERT_EQ(TimestepEmbedding({from.as<float>(), to.as<float>(), 4, dim, step, cosines_first},
                                  nullptr),
                cudaSuccess);
      ExpectClose(to.Read(), exact, Element::kF32, 2);
    }
  }
}

// As the reference backend computes it.
Values Stepped(const Values& state, const Values& output, const Values& noise, const Values& lines,
               int64_t rows, int64_t elements) {
  Values next(state.size());
  for (int64_t row = 0; row < rows; ++row) {
    const double* line = &lines[row * 27];
    for (int64_t i = 0; i < elements; ++i) {
      const double* s = &state[row * 4 * elements + i];
      const double drawn = line[2] != 0 ? noise[row * elements + i] : 0;
      const double combined[] = {
          s[0], s[elements], s[2 * elements], s[3 * elements], output[row * elements + i], drawn};
      for (int64_t k = 0; k < 4; ++k) {
        float sum = 0;
        for (int64_t c = 0; c < 6; ++c) {
          sum = std::fma(static_cast<float>(line[3 + k * 6 + c]), static_cast<float>(combined[c]),
                         sum);
        }
        next[row * 4 * elements + k * elements + i] = sum;
      }
    }
  }
  return next;
}

TEST_F(SamplingTest, SchedulerStepGivesTheSameBitsInPlace) {
  for (int64_t elements : {1, 77, 4 * 128 * 128}) {
    constexpr int64_t kRows = 3;
    const auto draw = [](int64_t size, uint32_t seed) {
      return Rounded(Element::kF32, Normal(size, seed));
    };
    const Values state = draw(kRows * 4 * elements, 1), output = draw(kRows * elements, 2);
    Values noise = draw(kRows * elements, 3), lines = draw(kRows * 27, 4);
    lines[2] = 1;
    lines[27 + 2] = 0;
    lines[54 + 2] = 1;
    noise[elements] = NAN;  // in the row that draws none
    const GpuArray states(Element::kF32, state), outputs(Element::kF32, output);
    const GpuArray noises(Element::kF32, noise), table(Element::kF32, lines);
    ASSERT_EQ(SchedulerStep({states.as<float>(), outputs.as<float>(), noises.as<float>(),
                             table.as<float>(), states.as<float>(), kRows, elements},
                            nullptr),
              cudaSuccess);
    EXPECT_EQ(states.Read(), Stepped(state, output, noise, lines, kRows, elements));
  }
}

}  // namespace
}  // namespace latentd::backends::cuda::kernels
