// The CPU backend's own loops in every instruction set that this machine has, against the loops of
// the baseline and against formulas in double precision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "core/backends/cpu/kernels/kernel_table.h"

namespace latentd::backends::cpu {
namespace {

std::vector<float> Random(size_t size, float low, float high, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> values(low, high);
  std::vector<float> result(size);
  for (float& value : result) value = values(random);
  return result;
}

void ExpectNear(const std::vector<float>& actual, const std::vector<float>& expected, double abs) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], abs + 1e-5 * std::abs(expected[i])) << "at " << i;
  }
}

class Kernels : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    kernels_ = KernelsByName(GetParam());
    if (kernels_ == nullptr) GTEST_SKIP() << "not on this machine";
  }

  const KernelTable* kernels_ = nullptr;
  const KernelTable& baseline_ = *KernelsByName("baseline");
};

INSTANTIATE_TEST_SUITE_P(InstructionSets, Kernels, ::testing::Values("baseline", "avx2", "avx512"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Kernels, UnaryFunctionsAreExactToRounding) {
  struct Row {
    UnaryFunction function;
    double (*exact)(double);
  };
  const Row rows[] = {
      {UnaryFunction::kSilu, [](double x) { return x / (1 + std::exp(-x)); }},
      {UnaryFunction::kGelu, [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
      {UnaryFunction::kQuickGelu, [](double x) { return x / (1 + std::exp(-1.702 * x)); }},
      {UnaryFunction::kRelu, [](double x) { return x > 0 ? x : 0.0; }},
      {UnaryFunction::kTanh, [](double x) { return std::tanh(x); }},
  };
  for (const Row& row : rows) {
    for (float range : {0.01f, 1.0f, 10.0f, 200.0f}) {
      const std::vector<float> x = Random(1003, -range, range);
      std::vector<float> y(x.size());
      kernels_->unary(row.function, Element::kF32, x.data(), y.data(),
                      static_cast<int64_t>(x.size()));
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_NEAR(y[i], row.exact(x[i]), 1e-6 + 2e-6 * std::abs(row.exact(x[i]))) << x[i];
      }
    }
  }
}

// From where it becomes zero to where it becomes infinite.
TEST_P(Kernels, ExpIsTheLibrarys) {
  const std::vector<float> x = Random(1003, -110, 95);
  std::vector<float> y(x.size());
  kernels_->unary(UnaryFunction::kExp, Element::kF32, x.data(), y.data(),
                  static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], std::exp(x[i])) << x[i];
}

// Sizes around the width of a vector, where whole vectors end.
TEST_P(Kernels, EveryTailIsComputed) {
  for (int64_t size = 1; size <= 70; ++size) {
    const std::vector<float> x = Random(2 * size, -3, 3, static_cast<unsigned>(size));
    std::vector<float> actual(size + 1, 7.0f), expected(size + 1, 7.0f);
    kernels_->geglu(Element::kF32, x.data(), actual.data(), 1, size);
    baseline_.geglu(Element::kF32, x.data(), expected.data(), 1, size);
    ExpectNear(actual, expected, 1e-6);
    kernels_->softmax(x.data(), actual.data(), 1, size);
    baseline_.softmax(x.data(), expected.data(), 1, size);
    ExpectNear(actual, expected, 1e-6);
  }
}

TEST_P(Kernels, GroupNormOfManyShapes) {
  struct Shape {
    int64_t rows, channels, pixels, groups;
  };
  for (const Shape& s : std::vector<Shape>{
           {1, 1, 2, 1}, {2, 32, 35, 32}, {2, 96, 64, 32}, {1, 70, 300, 7}, {3, 144, 5, 36}}) {
    const auto size = static_cast<size_t>(s.rows * s.channels * s.pixels);
    const std::vector<float> x = Random(size, 90, 110), gamma = Random(s.channels, -2, 2),
                             beta = Random(s.channels, -1, 1),
                             added = Random(s.rows * (s.channels + 3), -1, 1);
    for (bool nhwc : {false, true}) {
      std::vector<float> actual(size), expected(size);
      std::vector<char> workspace(kernels_->group_norm_workspace(s.rows, s.channels, 3));
      GroupNormArguments a = {
          Element::kF32,  x.data(), actual.data(),   gamma.data(), beta.data(), added.data(),
          s.channels + 3, s.rows,   s.channels,      s.pixels,     s.groups,    1e-5f,
          true,           3,        workspace.data()};
      nhwc ? kernels_->group_norm_nhwc(a) : kernels_->group_norm_nchw(a);
      a.y = expected.data();
      nhwc ? baseline_.group_norm_nhwc(a) : baseline_.group_norm_nchw(a);
      ExpectNear(actual, expected, 2e-5);
    }
  }
}

TEST_P(Kernels, AttentionOfManyShapesAndThreadCounts) {
  struct Shape {
    int64_t rows, queries, keys, heads, size;
    bool causal;
  };
  for (const Shape& s : std::vector<Shape>{{1, 1, 1, 1, 1, false},
                                           {2, 65, 77, 3, 32, false},
                                           {1, 9, 1500, 1, 8, false},
                                           {1, 700, 700, 1, 40, true},
                                           {1, 130, 33, 2, 72, false}}) {
    const int64_t channels = s.heads * s.size;
    const std::vector<float> q = Random(s.rows * s.queries * channels, -1, 1, 1),
                             k = Random(s.rows * s.keys * channels, -1, 1, 2),
                             v = Random(s.rows * s.keys * channels, -1, 1, 3);
    std::vector<float> actual(q.size()), expected(q.size());
    AttentionArguments a = {};
    a.query = q.data(), a.key = k.data(), a.value = v.data();
    a.rows = s.rows, a.queries = s.queries, a.keys = s.keys, a.heads = s.heads, a.size = s.size;
    a.query_row = s.queries * channels, a.key_row = a.value_row = s.keys * channels;
    a.query_token = a.key_token = a.value_token = channels;
    a.scale = 0.7f, a.causal = s.causal;
    const auto run = [&](const KernelTable& kernels, int threads, std::vector<float>& to) {
      a.threads = threads;
      std::vector<char> workspace(kernels.attention_workspace(a));
      a.workspace = workspace.data();
      a.result = to.data();
      kernels.attention(a);
    };
    run(baseline_, 1, expected);
    for (int threads : {1, 2, 5}) {
      run(*kernels_, threads, actual);
      ExpectNear(actual, expected, 2e-6);
    }
  }
}

TEST_P(Kernels, LayerNormAndRowStdOfManySizes) {
  for (int64_t size : {2, 15, 16, 17, 96, 1280, 5000}) {
    const std::vector<float> x = Random(3 * size, 5, 9), gamma = Random(size, -2, 2),
                             beta = Random(size, -1, 1);
    std::vector<float> actual(3 * size), expected(3 * size);
    kernels_->layer_norm(Element::kF32, x.data(), actual.data(), gamma.data(), beta.data(), 3, size,
                         1e-5f);
    baseline_.layer_norm(Element::kF32, x.data(), expected.data(), gamma.data(), beta.data(), 3,
                         size, 1e-5f);
    ExpectNear(actual, expected, 2e-5);
    std::vector<float> stds(3), expected_stds(3);
    kernels_->row_std(x.data(), stds.data(), 3, size);
    baseline_.row_std(x.data(), expected_stds.data(), 3, size);
    ExpectNear(stds, expected_stds, 1e-6);
  }
}

TEST_P(Kernels, RowStdOfARowWithWhatIsNotFiniteIsNan) {
  constexpr int64_t kSize = 1500;
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    for (int64_t at : {0, 700, 1499}) {
      std::vector<float> x = Random(2 * kSize, -1, 1), stds(2);
      x[at] = bad;
      kernels_->row_std(x.data(), stds.data(), 2, kSize);
      EXPECT_TRUE(std::isnan(stds[0]) && std::isfinite(stds[1])) << bad << " " << at;
    }
  }
}

}  // namespace
}  // namespace latentd::backends::cpu
