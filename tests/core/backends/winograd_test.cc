// The CPU backend's Winograd convolution in every instruction set that this machine has, against
// sums in double precision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/backends/cpu/kernels/kernel_table.h"

namespace latentd::backends::cpu {
namespace {

constexpr int64_t kGuard = 64;  // floats behind what the kernel may write
constexpr float kUntouched = 123.0f;

std::vector<float> Random(int64_t size, float deviation, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> values(0, deviation);
  std::vector<float> result(size);
  for (float& value : result) value = values(random);
  return result;
}

struct Case {
  int64_t rows, height, width, channels, out;
  bool upsampled = false, bias = true, residual = false;
};

// The convolution and what it reads.
struct Convolution {
  explicit Convolution(const Case& c)
      : c(c),
        x(Random(c.rows * c.height * c.width * c.channels / (c.upsampled ? 4 : 1), 1, 1)),
        weight(Random(c.out * c.channels * 9, 1 / std::sqrt(9.0f * c.channels), 2)),
        bias(Random(c.out, 1, 3)),
        residual(Random(c.rows * c.height * c.width * c.out, 1, 4)) {}

  double Input(int64_t row, int64_t i, int64_t j, int64_t channel) const {
    if (i < 0 || j < 0 || i >= c.height || j >= c.width) return 0;
    const int shift = c.upsampled ? 1 : 0;
    const int64_t pixel =
        (row * (c.height >> shift) + (i >> shift)) * (c.width >> shift) + (j >> shift);
    return x[pixel * c.channels + channel];
  }

  // Element `index` of the result.
  double Exact(int64_t index) const {
    const int64_t k = index % c.out, pixel = index / c.out;
    const int64_t j = pixel % c.width, i = pixel / c.width % c.height;
    double sum = (c.bias ? bias[k] : 0.0) + (c.residual ? residual[index] : 0.0);
    for (int64_t tap = 0; tap < 9; ++tap) {
      for (int64_t channel = 0; channel < c.channels; ++channel) {
        sum += Input(pixel / c.width / c.height, i + tap / 3 - 1, j + tap % 3 - 1, channel) *
               weight[(k * c.channels + channel) * 9 + tap];
      }
    }
    return sum;
  }

  std::vector<float> Run(const KernelTable& kernels, int threads) const {
    std::vector<float> packed(kernels.winograd_weight_bytes(c.channels, c.out) / sizeof(float));
    kernels.winograd_pack(weight.data(), c.channels, c.out, packed.data());
    std::vector<float> y(residual.size() + kGuard, kUntouched);
    WinogradArguments a = {x.data(),
                           packed.data(),
                           c.bias ? bias.data() : nullptr,
                           c.residual ? residual.data() : nullptr,
                           y.data(),
                           c.rows,
                           c.height,
                           c.width,
                           c.channels,
                           c.out,
                           c.upsampled,
                           threads,
                           nullptr};
    // Earlier contents of the workspace must not show.
    std::vector<float> workspace(kernels.winograd_workspace(a) / sizeof(float) + kGuard,
                                 std::numeric_limits<float>::quiet_NaN());
    std::fill(workspace.end() - kGuard, workspace.end(), kUntouched);
    a.workspace = reinterpret_cast<char*>(workspace.data());
    kernels.winograd(a);
    for (int64_t i = 1; i <= kGuard; ++i) EXPECT_EQ(workspace[workspace.size() - i], kUntouched);
    return y;
  }

  Case c;
  std::vector<float> x, weight, bias, residual;
};

class Winograd : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    kernels_ = KernelsByName(GetParam());
    if (kernels_ == nullptr) GTEST_SKIP() << "not on this machine";
  }

  const KernelTable* kernels_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(InstructionSets, Winograd, ::testing::Values("baseline", "avx2", "avx512"),
                         [](const auto& info) { return std::string(info.param); });

// Whole tiles and parts of them, channels that fill vectors in pairs and that do not, fewer tiles
// than a task takes and more.
TEST_P(Winograd, IsExactToRounding) {
  for (const Case& c :
       {Case{1, 4, 4, 16, 16}, Case{1, 1, 1, 16, 16}, Case{2, 7, 5, 48, 16},
        Case{1, 3, 30, 16, 80, false, false}, Case{2, 9, 18, 32, 48, false, true, true},
        Case{1, 40, 36, 64, 32, false, false, true}, Case{2, 10, 6, 16, 48, true},
        Case{1, 2, 2, 32, 32, true, false}}) {
    const Convolution convolution(c);
    for (const int threads : {1, 3}) {
      const std::vector<float> y = convolution.Run(*kernels_, threads);
      const auto size = static_cast<int64_t>(y.size()) - kGuard;
      for (int64_t i = 0; i < size; ++i) {
        ASSERT_NEAR(y[i], convolution.Exact(i), 2e-5)
            << "at " << i << " of " << c.rows << "x" << c.height << "x" << c.width << "x" << c.out;
      }
      for (int64_t i = size; i < size + kGuard; ++i) ASSERT_EQ(y[i], kUntouched);
    }
  }
}

// A picture is the same whatever it is batched with, and however many threads draw it.
TEST_P(Winograd, ARowIsTheSameBesideAnother) {
  Case c = {2, 12, 20, 48, 32};
  const std::vector<float> both = Convolution(c).Run(*kernels_, 1);
  c.rows = 1;
  Convolution first(c);
  const std::vector<float> alone = first.Run(*kernels_, 2);
  const int64_t size = c.height * c.width * c.out;
  EXPECT_TRUE(std::equal(alone.begin(), alone.begin() + size, both.begin()));
}

TEST_P(Winograd, KeepsWhatIsNotANumber) {
  Convolution convolution({1, 8, 8, 16, 16});
  convolution.x[0] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> y = convolution.Run(*kernels_, 1);
  EXPECT_TRUE(std::isnan(y[0]));
}

}  // namespace
}  // namespace latentd::backends::cpu
