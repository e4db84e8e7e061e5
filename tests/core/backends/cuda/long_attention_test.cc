#include "core/backends/cuda/kernels/attention/long_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/core/backends/cuda/attention_values.h"
#include "tests/core/backends/cuda/gpu_array.h"

namespace latentd::backends::cuda::kernels {
namespace {

constexpr int64_t kSize = kAttentionSize;

using LongAttentionTest = HopperTest;

// Parts of tiles, of heads and of blocks of keys, fewer and more blocks than are in memory at once,
// and scores so large that references rise again and again.
const AttentionCase kCases[] = {{1, 1, 1, 1},
                                {1, 1, 64, 64},
                                {2, 3, 65, 161},
                                {1, 2, 300, 577},
                                {1, 1, 17, 1024},
                                {2, 1, 64, 1000, false, 4},
                                {1, 2, 130, 640, false, 60},
                                {2, 3, 65, 161, false, 0.16f, 40},
                                {1, 2, 100, 300, false, 0.25f, 8},
                                {1, 2, 100, 300, false, 0.125f, 56}};

int64_t SizeOf(const AttentionCase& s) { return s.rows * s.queries * s.heads * s.size; }

// Far from a result by at most half a unit of the last place of each weight, and of its own.
void ExpectNear(const Values& actual, const AttentionCase& s, const AttentionOperands& o,
                Element element) {
  double largest = 0;
  for (double value : o.value) largest = std::max(largest, std::abs(value));
  const double half_unit = element == Element::kF16 ? 0x1p-11 : 0x1p-8;
  ExpectClose(actual, AttentionOf(s, o, std::nullopt), element, 0.51, largest * half_unit);
}

TEST_F(LongAttentionTest, IsExactToTheRoundingOfItsWeights) {
  for (Element element : {Element::kF16, Element::kBF16}) {
    for (const AttentionCase& s : kCases) {
      SCOPED_TRACE(::testing::Message() << s.queries << "x" << s.keys << " " << int(element));
      const AttentionOperands o = RandomOperands(element, s);
      const GpuArray query(element, o.query), both(element, o.key);
      const GpuArray result = GpuArray::Poisoned(element, SizeOf(s));
      ASSERT_EQ(LongAttention(ArgsOf(element, s, query, both, result), nullptr), cudaSuccess);
      ExpectNear(result.Read(), s, o, element);
    }
  }
}

// NaN that are no operand lie behind each row's keys, and memory behind the result.
TEST_F(LongAttentionTest, TouchesNothingBesideItsOperands) {
  const AttentionCase s = {2, 2, 70, 200, false, 0.125f, 40};
  const int64_t token = 2 * s.heads * s.size, row = (s.keys + 3) * token, more = 64 * s.size;
  const AttentionOperands o = RandomOperands(Element::kBF16, s);
  Values both(s.rows * row, std::numeric_limits<double>::quiet_NaN());
  for (int64_t i = 0; i < s.rows; ++i) {
    std::copy_n(o.key.begin() + i * s.keys * token, s.keys * token, both.begin() + i * row);
  }
  const GpuArray query(Element::kBF16, o.query), apart(Element::kBF16, both);
  const GpuArray result = GpuArray::Poisoned(Element::kBF16, SizeOf(s) + more);
  AttentionArgs args = ArgsOf(Element::kBF16, s, query, apart, result);
  args.key.row = args.value.row = row;
  ASSERT_EQ(LongAttention(args, nullptr), cudaSuccess);
  Values actual = result.Read();
  const std::vector<char> bytes = result.Bytes();
  EXPECT_TRUE(std::all_of(bytes.end() - more * 2, bytes.end(), [](char c) { return c == '\xff'; }));
  actual.resize(SizeOf(s));
  ExpectNear(actual, s, o, Element::kBF16);
}

// Blocks of one to five tiles, which are of one head or of up to five.
TEST_F(LongAttentionTest, AHeadIsTheSameWhateverIsBesideIt) {
  const AttentionCase cases[] = {
      {1, 3, 200, 200},  {2, 100, 64, 300},  {3, 43, 190, 170},   {2, 70, 150, 1000},
      {4, 160, 33, 400}, {2, 107, 192, 260}, {2, 20, 1024, 1024}, {2, 20, 1000, 720, false, 8}};
  for (const AttentionCase& s : cases) {
    SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.heads << " " << s.queries);
    const AttentionOperands o = RandomOperands(Element::kBF16, s);
    const GpuArray query(Element::kBF16, o.query), both(Element::kBF16, o.key);
    const GpuArray all = GpuArray::Poisoned(Element::kBF16, SizeOf(s));
    const GpuArray alone = GpuArray::Poisoned(Element::kBF16, SizeOf(s));
    const AttentionArgs args = ArgsOf(Element::kBF16, s, query, both, all);
    ASSERT_EQ(LongAttention(args, nullptr), cudaSuccess);
    AttentionArgs head = args;
    head.rows = head.heads = 1;
    const auto at = [](const void* begin, int64_t element) {
      return static_cast<const char*>(begin) + element * 2;
    };
    for (int64_t i = 0; i < s.rows * s.heads; ++i) {
      const int64_t row = i / s.heads, first = i % s.heads * kSize;
      head.query.data = at(args.query.data, row * args.query.row + first);
      head.key.data = at(args.key.data, row * args.key.row + first);
      head.value.data = at(args.value.data, row * args.value.row + first);
      head.result = alone.as<char>() + i * s.queries * kSize * 2;
      ASSERT_EQ(LongAttention(head, nullptr), cudaSuccess);
    }
    const std::vector<char> expected = alone.Bytes(), actual = all.Bytes();
    int64_t different = 0;
    for (int64_t i = 0; i < SizeOf(s) / kSize; ++i) {  // [rows, queries, heads]
      const int64_t head = i % s.heads, query = i / s.heads % s.queries;
      const int64_t same = (i / s.heads / s.queries * s.heads + head) * s.queries + query;
      different += !std::equal(actual.begin() + i * kSize * 2, actual.begin() + (i + 1) * kSize * 2,
                               expected.begin() + same * kSize * 2);
    }
    EXPECT_EQ(different, 0);
  }
}

TEST_F(LongAttentionTest, AQueryIsTheSameWhateverIsBesideIt) {
  const AttentionCase s = {1, 2, 150, 400, false, 8};  // references rise for some
  const AttentionOperands o = RandomOperands(Element::kF16, s);
  const GpuArray query(Element::kF16, o.query), both(Element::kF16, o.key);
  const GpuArray all = GpuArray::Poisoned(Element::kF16, SizeOf(s));
  const int64_t token = s.heads * kSize;
  ASSERT_EQ(LongAttention(ArgsOf(Element::kF16, s, query, both, all), nullptr), cudaSuccess);
  const std::vector<char> expected = all.Bytes();
  for (int64_t first : {0, 1, 37, 149}) {
    const GpuArray one = GpuArray::Poisoned(Element::kF16, token);
    AttentionArgs args = ArgsOf(Element::kF16, s, query, both, one);
    args.query.data = query.as<char>() + first * token * 2;
    args.queries = 1;
    ASSERT_EQ(LongAttention(args, nullptr), cudaSuccess);
    const std::vector<char> actual = one.Bytes();
    EXPECT_TRUE(std::equal(actual.begin(), actual.end(), expected.begin() + first * token * 2));
  }
}

TEST(LongAttentionArgsTest, AreRefusedWhereThereIsNoKernelForThem) {
  AttentionArgs args;
  args.query = args.key = args.value = {nullptr, 64, 64};
  args.rows = args.heads = args.queries = args.keys = 1;
  EXPECT_TRUE(HasLongAttention(args));
  const auto refused = [&](auto change) {
    AttentionArgs changed = args;
    change(changed);
    return !HasLongAttention(changed) && LongAttention(changed, nullptr) == cudaErrorInvalidValue;
  };
  EXPECT_TRUE(refused([](auto& a) { a.element = Element::kF32; }));
  EXPECT_TRUE(refused([](auto& a) { a.scale = -1; }));
  EXPECT_TRUE(refused([](auto& a) { a.causal = true; }));
  EXPECT_TRUE(refused([](auto& a) { a.keys = 0; }));
  EXPECT_TRUE(refused([](auto& a) { a.size = 12; }));
  EXPECT_TRUE(refused([](auto& a) { a.size = 72; }));
  EXPECT_TRUE(refused([](auto& a) { a.value.token = 0; }));
  EXPECT_TRUE(refused([](auto& a) { a.rows = 2, a.key.row = 0; }));
}

}  // namespace
}  // namespace latentd::backends::cuda::kernels
