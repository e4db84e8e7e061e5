#include "core/backends/cuda/kernels/short_attention.h"

#include <algorithm>
#include <cmath>

#include "tests/core/backends/cuda/gpu_array.h"

namespace latentd::backends::cuda::kernels {
namespace {

using ShortAttentionTest = GpuTest;

constexpr int64_t kSize = kShortAttentionSize;

struct Shape {
  int64_t rows, heads, queries, keys;
  bool causal = false;
  float scale = 0.125f;
};

// Parts of tiles, blocks and of both numbers of keys that there are kernels for.
const Shape kShapes[] = {{1, 1, 1, 1},
                         {2, 3, 17, 77},
                         {1, 2, 128, 80},
                         {2, 1, 129, 81},
                         {1, 2, 300, 154},
                         {1, 1, 64, 160},
                         {2, 2, 77, 77, true},
                         {1, 1, 160, 160, true},
                         {1, 2, 33, 9, false, -0.5f},
                         {1, 1, 20, 40, false, 4}};

// Of operands whose tokens are `token` elements apart and begin at `first`.
struct Strided {
  int64_t token, first;
  double at(const Values& values, int64_t row, int64_t tokens, int64_t i, int64_t element) const {
    return values[(row * tokens + i) * token + first + element];
  }
};

struct Operands {
  Values query, key, value;
  Strided query_strides, key_strides, value_strides;
};

// The weights of a query's keys, at most 1.
Values WeightsOf(const Shape& s, const Operands& o, int64_t row, int64_t head, int64_t query) {
  Values weights(s.causal ? std::min(query + 1, s.keys) : s.keys);
  for (size_t i = 0; i < weights.size(); ++i) {
    for (int64_t e = head * kSize; e < (head + 1) * kSize; ++e) {
      weights[i] += o.query_strides.at(o.query, row, s.queries, query, e) *
                    o.key_strides.at(o.key, row, s.keys, static_cast<int64_t>(i), e);
    }
    weights[i] *= s.scale;
  }
  const double largest = *std::max_element(weights.begin(), weights.end());
  for (double& weight : weights) weight = std::exp(weight - largest);
  return weights;
}

Values AttentionOf(Element element, const Shape& s, const Operands& o) {
  Values result;
  for (int64_t row = 0; row < s.rows; ++row) {
    for (int64_t query = 0; query < s.queries; ++query) {
      for (int64_t head = 0; head < s.heads; ++head) {
        const Values weights = WeightsOf(s, o, row, head, query);
        const Values rounded = Rounded(element, weights);
        double sum = 0;
        for (double weight : weights) sum += weight;
        for (int64_t e = head * kSize; e < (head + 1) * kSize; ++e) {
          double mixed = 0;
          for (size_t i = 0; i < weights.size(); ++i) {
            mixed +=
                rounded[i] * o.value_strides.at(o.value, row, s.keys, static_cast<int64_t>(i), e);
          }
          result.push_back(mixed / sum);
        }
      }
    }
  }
  return result;
}

// Keys and values are slices of one tensor, as merged projections leave them.
Operands RandomOperands(Element element, const Shape& s) {
  const int64_t channels = s.heads * kSize;
  Operands o;
  o.query = Rounded(element, Normal(s.rows * s.queries * channels, 1));
  o.key = Rounded(element, Normal(s.rows * s.keys * 2 * channels, 2));
  o.value = o.key;
  o.query_strides = {channels, 0};
  o.key_strides = {2 * channels, 0};
  o.value_strides = {2 * channels, channels};
  return o;
}

ShortAttentionArgs ArgsOf(Element element, const Shape& s, const GpuArray& query,
                          const GpuArray& both, const GpuArray& result) {
  const int64_t channels = s.heads * kSize;
  ShortAttentionArgs args;
  args.element = element;
  args.query = {query.data(), s.queries * channels, channels};
  args.key = {both.data(), s.keys * 2 * channels, 2 * channels};
  args.value = {both.as<char>() + channels * 2, s.keys * 2 * channels, 2 * channels};
  args.result = result.data();
  args.rows = s.rows;
  args.heads = s.heads;
  args.queries = s.queries;
  args.keys = s.keys;
  args.scale = s.scale;
  args.causal = s.causal;
  return args;
}

// A weight next to a rounding's middle may be rounded otherwise, and moves a result by what it is
// of all.
TEST_F(ShortAttentionTest, IsExactToTheRoundingOfItsWeights) {
  for (Element element : {Element::kF16, Element::kBF16}) {
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(::testing::Message() << s.queries << "x" << s.keys << " " << int(element));
      const Operands o = RandomOperands(element, s);
      const GpuArray query(element, o.query), both(element, o.key);
      const GpuArray result = GpuArray::Poisoned(element, s.rows * s.queries * s.heads * kSize);
      ASSERT_EQ(ShortAttention(ArgsOf(element, s, query, both, result), nullptr), cudaSuccess);
      ExpectClose(result.Read(), AttentionOf(element, s, o), element, 0.51,
                  element == Element::kF16 ? 2e-4 : 2e-3);
    }
  }
}

TEST_F(ShortAttentionTest, AQueryIsTheSameWhateverIsBesideIt) {
  const Shape many = {2, 3, 200, 77}, few = {1, 3, 5, 77};
  const Operands o = RandomOperands(Element::kBF16, many);
  const GpuArray query(Element::kBF16, o.query), both(Element::kBF16, o.key);
  const GpuArray all = GpuArray::Poisoned(Element::kBF16, 2 * 200 * 3 * kSize);
  const GpuArray some = GpuArray::Poisoned(Element::kBF16, 5 * 3 * kSize);
  ASSERT_EQ(ShortAttention(ArgsOf(Element::kBF16, many, query, both, all), nullptr), cudaSuccess);
  ShortAttentionArgs args = ArgsOf(Element::kBF16, few, query, both, some);
  const int64_t token = 3 * kSize * 2, first = 200 + 33;  // of the second row
  args.query.data = query.as<char>() + first * token;
  args.key.data = both.as<char>() + 77 * 2 * token;
  args.value.data = both.as<char>() + 77 * 2 * token + token;
  ASSERT_EQ(ShortAttention(args, nullptr), cudaSuccess);
  const std::vector<char> expected = all.Bytes(), actual = some.Bytes();
  EXPECT_TRUE(std::equal(actual.begin(), actual.end(), expected.begin() + first * token));
}

TEST_F(ShortAttentionTest, RefusesWhatItHasNoKernelFor) {
  ShortAttentionArgs args;
  args.keys = kMostShortAttentionKeys + 1;
  EXPECT_EQ(ShortAttention(args, nullptr), cudaErrorInvalidValue);
  args.keys = 0;
  EXPECT_EQ(ShortAttention(args, nullptr), cudaErrorInvalidValue);
  args.keys = 1;
  args.element = Element::kF32;
  EXPECT_EQ(ShortAttention(args, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace latentd::backends::cuda::kernels
