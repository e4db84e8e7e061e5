#include "core/backends/cuda/kernels/products/linear_geglu.h"

#include <cmath>

#include "tests/core/backends/cuda/gpu_array.h"

namespace latentd::backends::cuda::kernels {
namespace {

using LinearGegluTest = HopperTest;

struct Sizes {
  int64_t rows, columns, depth;
};

// The plain weight's line that is the packed one's of that number, said as GatedRow's comment does.
int64_t PlainLine(int64_t line, int64_t columns) {
  const int64_t in32 = line % 32, j = in32 / 8, t = in32 % 8 / 2, i = in32 % 2;
  return (j >= 2 ? columns : 0) + line / 32 * 16 + 4 * t + 2 * (j % 2) + i;
}

Values Packed(const Values& weight, const Sizes& s) {
  Values packed(weight.size());
  for (int64_t line = 0; line < 2 * s.columns; ++line) {
    const auto from = weight.begin() + PlainLine(line, s.columns) * s.depth;
    std::copy(from, from + s.depth, packed.begin() + line * s.depth);
  }
  return packed;
}

Values LinearGegluOf(const Values& x, const Values& weight, const Values& bias, const Sizes& s) {
  Values result(s.rows * s.columns);
  const auto sum = [&](int64_t row, int64_t line) {
    double sum = bias.empty() ? 0 : bias[line];
    for (int64_t k = 0; k < s.depth; ++k) sum += x[row * s.depth + k] * weight[line * s.depth + k];
    return sum;
  };
  for (int64_t i = 0; i < s.rows * s.columns; ++i) {
    const int64_t row = i / s.columns, column = i % s.columns;
    const double gate = sum(row, s.columns + column);
    result[i] = sum(row, column) * gate * 0.5 * std::erfc(-gate * std::sqrt(0.5));
  }
  return result;
}

// More and fewer rows, columns and steps than a tile has; multiples of tiles and not.
constexpr Sizes kSizes[] = {{1, 16, 8},     {128, 80, 64},   {129, 96, 72}, {77, 640, 40},
                            {300, 160, 96}, {256, 320, 640}, {1100, 96, 72}};

TEST_F(LinearGegluTest, MultipliesValuesByTheirGates) {
  for (const Sizes& s : kSizes) {
    for (Element element : {Element::kF16, Element::kBF16}) {
      for (bool has_bias : {false, true}) {
        SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.columns << "x" << s.depth
                                          << " bias " << has_bias << " " << int(element));
        const Values x = Rounded(element, Normal(s.rows * s.depth, 1));
        const Values weight =
            Rounded(element, Normal(2 * s.columns * s.depth, 2, 1 / std::sqrt(double(s.depth))));
        const Values bias = has_bias ? Rounded(element, Normal(2 * s.columns, 3)) : Values();
        const GpuArray from(element, x), packed(element, Packed(weight, s)),
            biases(element, has_bias ? bias : Values(1));
        const GpuArray to = GpuArray::Poisoned(element, s.rows * s.columns);
        const LinearGegluArgs args = {
            element,   from.data(), packed.data(), has_bias ? biases.data() : nullptr,
            to.data(), s.rows,      s.columns,     s.depth};
        ASSERT_EQ(LinearGeglu(args, nullptr), cudaSuccess);
        // Sums in f32 of up to 640 products are off by some 1e-6.
        ExpectClose(to.Read(), LinearGegluOf(x, weight, bias, s), element, 0.52, 1e-5);
      }
    }
  }
}

TEST_F(LinearGegluTest, RefusesWhatItDoesNotTake) {
  LinearGegluArgs args = {.element = Element::kF32, .rows = 1, .columns = 16, .depth = 8};
  EXPECT_EQ(LinearGeglu(args, nullptr), cudaErrorInvalidValue);
  args.element = Element::kBF16;
  args.columns = 24;
  EXPECT_EQ(LinearGeglu(args, nullptr), cudaErrorInvalidValue);
  args.columns = 16;
  args.depth = 12;
  EXPECT_EQ(LinearGeglu(args, nullptr), cudaErrorInvalidValue);
  args.depth = 8;
  const GpuArray memory = GpuArray::Poisoned(Element::kBF16, 64);
  args.x = args.weight = args.result = memory.data();
  args.bias = memory.as<char>() + 8;
  EXPECT_EQ(LinearGeglu(args, nullptr), cudaErrorInvalidValue);
}

// The packing is a strided copy by GatedRow; the test's is by number.
TEST(GatedRowTest, IsThePermutationThatTheKernelReads) {
  const int64_t columns = 48;
  const GatedRow lines(columns);
  for (int64_t line = 0; line < 2 * columns; ++line) {
    int64_t rest = line, plain = 0;
    for (int d = GatedRow::kRank - 1; d >= 0; --d) {
      plain += rest % lines.sizes[d] * lines.strides[d];
      rest /= lines.sizes[d];
    }
    EXPECT_EQ(plain, PlainLine(line, columns)) << line;
  }
}

}  // namespace
}  // namespace latentd::backends::cuda::kernels
