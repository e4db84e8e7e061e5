#include "core/backends/cuda/kernels/attention/short_attention.h"

#include <algorithm>

#include "tests/core/backends/cuda/attention_values.h"
#include "tests/core/backends/cuda/gpu_array.h"

namespace latentd::backends::cuda::kernels {
namespace {

using ShortAttentionTest = GpuTest;

constexpr int64_t kSize = kAttentionSize;

// Parts of tiles, blocks, heads and of both numbers of keys that there are kernels for.
const AttentionCase kCases[] = {{1, 1, 1, 1},
                                {2, 3, 17, 77},
                                {1, 2, 128, 80},
                                {2, 1, 129, 81},
                                {1, 2, 300, 154},
                                {1, 1, 64, 160},
                                {2, 2, 77, 77, true},
                                {1, 1, 160, 160, true},
                                {1, 2, 33, 9, false, -0.5f},
                                {1, 1, 20, 40, false, 4},
                                {2, 3, 70, 77, false, 0.16f, 40},
                                {1, 2, 33, 100, true, 0.25f, 8},
                                {1, 2, 40, 21, false, 0.125f, 56}};

// A weight next to a rounding's middle may be rounded otherwise, and moves a result by what it is
// of all.
TEST_F(ShortAttentionTest, IsExactToTheRoundingOfItsWeights) {
  for (Element element : {Element::kF16, Element::kBF16}) {
    for (const AttentionCase& s : kCases) {
      SCOPED_TRACE(::testing::Message() << s.queries << "x" << s.keys << " " << int(element));
      const AttentionOperands o = RandomOperands(element, s);
      const GpuArray query(element, o.query), both(element, o.key);
      const GpuArray result = GpuArray::Poisoned(element, s.rows * s.queries * s.heads * s.size);
      ASSERT_EQ(ShortAttention(ArgsOf(element, s, query, both, result), nullptr), cudaSuccess);
      ExpectClose(result.Read(), AttentionOf(s, o, element), element, 0.51,
                  element == Element::kF16 ? 2e-4 : 2e-3);
    }
  }
}

TEST_F(ShortAttentionTest, AQueryIsTheSameWhateverIsBesideIt) {
  const AttentionCase many = {2, 3, 200, 77}, few = {1, 3, 5, 77};
  const AttentionOperands o = RandomOperands(Element::kBF16, many);
  const GpuArray query(Element::kBF16, o.query), both(Element::kBF16, o.key);
  const GpuArray all = GpuArray::Poisoned(Element::kBF16, 2 * 200 * 3 * kSize);
  const GpuArray some = GpuArray::Poisoned(Element::kBF16, 5 * 3 * kSize);
  ASSERT_EQ(ShortAttention(ArgsOf(Element::kBF16, many, query, both, all), nullptr), cudaSuccess);
  AttentionArgs args = ArgsOf(Element::kBF16, few, query, both, some);
  const int64_t token = 3 * kSize * 2, first = 200 + 33;  // begin in the second row
  args.query.data = query.as<char>() + first * token;
  args.key.data = both.as<char>() + 77 * 2 * token;
  args.value.data = both.as<char>() + 77 * 2 * token + token;
  ASSERT_EQ(ShortAttention(args, nullptr), cudaSuccess);
  const std::vector<char> expected = all.Bytes(), actual = some.Bytes();
  EXPECT_TRUE(std::equal(actual.begin(), actual.end(), expected.begin() + first * token));
}

// A pixel of a video is a row: a large one has more than a launch takes.
TEST_F(ShortAttentionTest, RowsBeyondALaunchAreAsTheyAreAlone) {
  const AttentionCase many = {70000, 1, 2, 3, false, 0.125f, 8},
                      few = {10000, 1, 2, 3, false, 0.125f, 8};
  const AttentionOperands o = RandomOperands(Element::kBF16, many);
  const GpuArray query(Element::kBF16, o.query), both(Element::kBF16, o.key);
  const GpuArray all = GpuArray::Poisoned(Element::kBF16, many.rows * 2 * 8);
  const GpuArray some = GpuArray::Poisoned(Element::kBF16, few.rows * 2 * 8);
  ASSERT_EQ(ShortAttention(ArgsOf(Element::kBF16, many, query, both, all), nullptr), cudaSuccess);
  const int64_t first = many.rows - few.rows;
  AttentionArgs args = ArgsOf(Element::kBF16, few, query, both, some);
  for (AttentionArgs::Operand* operand : {&args.query, &args.key, &args.value}) {
    operand->data = static_cast<const char*>(operand->data) + first * operand->row * 2;
  }
  ASSERT_EQ(ShortAttention(args, nullptr), cudaSuccess);
  const std::vector<char> expected = all.Bytes(), actual = some.Bytes();
  EXPECT_TRUE(std::equal(actual.begin(), actual.end(), expected.end() - actual.size()));
}

TEST_F(ShortAttentionTest, RefusesWhatItHasNoKernelFor) {
  AttentionArgs args;
  args.keys = kMostShortAttentionKeys + 1;
  EXPECT_EQ(ShortAttention(args, nullptr), cudaErrorInvalidValue);
  args.keys = 0;
  EXPECT_EQ(ShortAttention(args, nullptr), cudaErrorInvalidValue);
  args.keys = 1;
  for (const int64_t size : {0, 12, 72}) {
    args.size = size;
    EXPECT_EQ(ShortAttention(args, nullptr), cudaErrorInvalidValue) << size;
  }
  args.size = kAttentionSize;
  args.element = Element::kF32;
  EXPECT_EQ(ShortAttention(args, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace latentd::backends::cuda::kernels
