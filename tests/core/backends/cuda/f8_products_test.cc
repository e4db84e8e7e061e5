// Our own 8-bit products: beside double precision of the same numbers.
#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/backends/cuda/kernels/products/f8_convolution.h"
#include "core/backends/cuda/kernels/products/f8_linear_geglu.h"
#include "core/backends/cuda/kernels/products/f8_product.h"
#include "tests/core/backends/cuda/gpu_array.h"

namespace latentd::backends::cuda::kernels {
namespace {

using F8ProductTest = HopperTest;
using F8LinearGegluTest = HopperTest;
using F8ConvolutionTest = HopperTest;

constexpr float kScale = 0x1p-10f;  // both operands have it

struct F8Sizes {
  int64_t rows, columns, depth;
};

// Random codes and what they stand for.
struct F8Values {
  F8Values(int64_t size, uint32_t seed, double deviation) {
    for (const double value : Normal(size, seed, deviation)) {
      codes.push_back(__nv_cvt_float_to_fp8(static_cast<float>(value), __NV_SATFINITE, __NV_E4M3));
      values.push_back(OfCode(codes.back()));
    }
  }
  Values codes, values;
};

// One number in the GPU's memory.
GpuArray One(float value) { return GpuArray(Element::kF32, {value}); }

// x times the weight's line, scaled; sums of it are near 1.
double SumOf(const F8Values& x, const F8Values& weight, int64_t depth, int64_t row, int64_t line) {
  double sum = 0;
  for (int64_t k = 0; k < depth; ++k) {
    sum += x.values[row * depth + k] * weight.values[line * depth + k];
  }
  return sum * kScale;
}

double DeviationOf(int64_t depth) { return 32 / std::pow(static_cast<double>(depth), 0.25); }

// Parts of tiles and whole ones, more and fewer tiles than multiprocessors.
constexpr F8Sizes kProducts[] = {
    {1, 16, 16}, {128, 160, 128}, {77, 640, 80}, {300, 328, 640}, {2048, 1280, 256}};

TEST_F(F8ProductTest, ScalesAndAddsBiasAndResidual) {
  for (const F8Sizes& s : kProducts) {
    for (const bool has_bias : {false, true}) {
      for (const bool has_residual : {false, true}) {
        SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.columns << "x" << s.depth << " "
                                          << has_bias << has_residual);
        const F8Values x(s.rows * s.depth, 1, DeviationOf(s.depth));
        const F8Values weight(s.columns * s.depth, 2, DeviationOf(s.depth));
        const Values bias = Rounded(Element::kBF16, Normal(s.columns, 3));
        const Values residual = Rounded(Element::kBF16, Normal(s.rows * s.columns, 4));
        const GpuArray from(Element::kF8E4M3, x.codes), lines(Element::kF8E4M3, weight.codes),
            scale = One(kScale), biases(Element::kBF16, bias), residuals(Element::kBF16, residual);
        const GpuArray to = GpuArray::Poisoned(Element::kBF16, s.rows * s.columns);
        ASSERT_EQ(
            F8Product(
                {from.data(), lines.data(), scale.as<float>(), has_bias ? biases.data() : nullptr,
                 has_residual ? residuals.data() : nullptr, to.data(), s.rows, s.columns, s.depth},
                nullptr),
            cudaSuccess);
        Values exact(s.rows * s.columns);
        for (int64_t i = 0; i < s.rows * s.columns; ++i) {
          exact[i] = SumOf(x, weight, s.depth, i / s.columns, i % s.columns) +
                     (has_bias ? bias[i % s.columns] : 0) + (has_residual ? residual[i] : 0);
        }
        // Sums near 1, of which each of 20 steps keeps 14 bits and cuts off the rest.
        ExpectClose(to.Read(), exact, Element::kBF16, 0.52, 8e-3);
      }
    }
  }
}

TEST_F(F8ProductTest, MayWriteOverTheResidual) {
  constexpr int64_t kRows = 500, kColumns = 320, kDepth = 64;
  const F8Values x(kRows * kDepth, 1, 10), weight(kColumns * kDepth, 2, 10);
  const Values residual = Rounded(Element::kBF16, Normal(kRows * kColumns, 4));
  const GpuArray from(Element::kF8E4M3, x.codes), lines(Element::kF8E4M3, weight.codes),
      scale = One(kScale), both(Element::kBF16, residual), apart(Element::kBF16, residual);
  const GpuArray to = GpuArray::Poisoned(Element::kBF16, kRows * kColumns);
  F8ProductArgs args = {from.data(), lines.data(), scale.as<float>(), nullptr, apart.data(),
                        to.data(),   kRows,        kColumns,          kDepth};
  ASSERT_EQ(F8Product(args, nullptr), cudaSuccess);
  args.residual = args.result = both.data();
  ASSERT_EQ(F8Product(args, nullptr), cudaSuccess);
  EXPECT_EQ(both.Bytes(), to.Bytes());
}

TEST_F(F8ProductTest, RefusesWhatItDoesNotTake) {
  EXPECT_EQ(F8Product({.rows = 1, .columns = 12, .depth = 16}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(F8Product({.rows = 1, .columns = 16, .depth = 24}, nullptr), cudaErrorInvalidValue);
}

struct F8ImageSizes {
  int64_t rows, height, width, channels, out;
  int64_t pixels() const { return rows * height * width; }
};

// The sum at a pixel of the result, scaled.
double SumOf(const F8Values& x, const F8Values& weight, const F8ImageSizes& s, int64_t pixel,
             int64_t line) {
  const int64_t column = pixel % s.width, row = pixel / s.width % s.height,
                image = pixel / (s.width * s.height);
  double sum = 0;
  for (int64_t tap = 0; tap < 9; ++tap) {
    const int64_t from_row = row + tap / 3 - 1, from_column = column + tap % 3 - 1;
    if (from_row < 0 || from_row >= s.height || from_column < 0 || from_column >= s.width) continue;
    const int64_t from = ((image * s.height + from_row) * s.width + from_column) * s.channels;
    const int64_t at = (line * 9 + tap) * s.channels;
    for (int64_t k = 0; k < s.channels; ++k) sum += x.values[from + k] * weight.values[at + k];
  }
  return sum * kScale;
}

// Images of less than a tile, more tiles than multiprocessors, and tiles that several images share;
// loads of 64 and of 128 channels, and a last one with nothing in its second half (64, 192, 320).
constexpr F8ImageSizes kImages[] = {
    {1, 1, 1, 64, 8},      {3, 5, 7, 64, 160}, {2, 9, 12, 128, 168}, {1, 33, 17, 192, 40},
    {2, 16, 16, 256, 640}, {5, 3, 2, 320, 16}, {1, 64, 64, 64, 960}, {1, 2, 300, 64, 320}};

TEST_F(F8ConvolutionTest, ScalesAndAddsBiasAndResidual) {
  for (const F8ImageSizes& s : kImages) {
    const F8Values x(s.pixels() * s.channels, 1, DeviationOf(9 * s.channels));
    const F8Values weight(s.out * 9 * s.channels, 2, DeviationOf(9 * s.channels));
    const Values bias = Rounded(Element::kBF16, Normal(s.out, 3));
    const Values residual = Rounded(Element::kBF16, Normal(s.pixels() * s.out, 4));
    const GpuArray from(Element::kF8E4M3, x.codes), lines(Element::kF8E4M3, weight.codes),
        scale = One(kScale), biases(Element::kBF16, bias), residuals(Element::kBF16, residual);
    Values sums(s.pixels() * s.out);
    for (int64_t i = 0; i < s.pixels() * s.out; ++i) {
      sums[i] = SumOf(x, weight, s, i / s.out, i % s.out);
    }
    for (const bool has_bias : {false, true}) {
      for (const bool has_residual : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << s.rows << "x" << s.height << "x" << s.width << "x" << s.channels << " to "
                     << s.out << " " << has_bias << has_residual);
        const GpuArray to = GpuArray::Poisoned(Element::kBF16, s.pixels() * s.out);
        ASSERT_EQ(F8Convolution({from.data(), lines.data(), scale.as<float>(),
                                 has_bias ? biases.data() : nullptr,
                                 has_residual ? residuals.data() : nullptr, to.data(), s.rows,
                                 s.height, s.width, s.channels, s.out},
                                nullptr),
                  cudaSuccess);
        Values exact = sums;
        for (int64_t i = 0; i < s.pixels() * s.out; ++i) {
          exact[i] += (has_bias ? bias[i % s.out] : 0) + (has_residual ? residual[i] : 0);
        }
        // Each of up to 23 steps keeps 14 bits of a sum that may be near 4, and cuts off the rest.
        ExpectClose(to.Read(), exact, Element::kBF16, 0.52, 1.2e-2);
      }
    }
  }
}

TEST_F(F8ConvolutionTest, MayWriteOverTheResidual) {
  constexpr F8ImageSizes kSizes = {2, 13, 11, 128, 320};
  const F8Values x(kSizes.pixels() * kSizes.channels, 1, 10),
      weight(kSizes.out * 9 * kSizes.channels, 2, 10);
  const Values residual = Rounded(Element::kBF16, Normal(kSizes.pixels() * kSizes.out, 4));
  const GpuArray from(Element::kF8E4M3, x.codes), lines(Element::kF8E4M3, weight.codes),
      scale = One(kScale), both(Element::kBF16, residual), apart(Element::kBF16, residual);
  const GpuArray to = GpuArray::Poisoned(Element::kBF16, kSizes.pixels() * kSizes.out);
  F8ConvolutionArgs args = {from.data(),  lines.data(),    scale.as<float>(), nullptr,
                            apart.data(), to.data(),       kSizes.rows,       kSizes.height,
                            kSizes.width, kSizes.channels, kSizes.out};
  ASSERT_EQ(F8Convolution(args, nullptr), cudaSuccess);
  args.residual = args.result = both.data();
  ASSERT_EQ(F8Convolution(args, nullptr), cudaSuccess);
  EXPECT_EQ(both.Bytes(), to.Bytes());
}

// An image gives the same whichever it is of how many.
TEST_F(F8ConvolutionTest, GivesAnImageTheSameBytesBesideOthers) {
  constexpr F8ImageSizes kSizes = {3, 12, 9, 192, 320};
  const F8Values x(kSizes.pixels() * kSizes.channels, 1, 10),
      weight(kSizes.out * 9 * kSizes.channels, 2, 10);
  const int64_t of_image = kSizes.pixels() / kSizes.rows;
  const GpuArray lines(Element::kF8E4M3, weight.codes), scale = One(kScale),
                                                        all(Element::kF8E4M3, x.codes);
  const GpuArray to = GpuArray::Poisoned(Element::kBF16, kSizes.pixels() * kSizes.out);
  F8ConvolutionArgs args = {all.data(),   lines.data(),    scale.as<float>(), nullptr,
                            nullptr,      to.data(),       kSizes.rows,       kSizes.height,
                            kSizes.width, kSizes.channels, kSizes.out};
  ASSERT_EQ(F8Convolution(args, nullptr), cudaSuccess);
  const Values together = to.Read();
  args.rows = 1;
  for (int64_t row = 0; row < kSizes.rows; ++row) {
    const auto first = x.codes.begin() + row * of_image * kSizes.channels;
    const GpuArray one(Element::kF8E4M3, Values(first, first + of_image * kSizes.channels));
    const GpuArray own = GpuArray::Poisoned(Element::kBF16, of_image * kSizes.out);
    args.x = one.data();
    args.result = own.data();
    ASSERT_EQ(F8Convolution(args, nullptr), cudaSuccess);
    const auto begin = together.begin() + row * of_image * kSizes.out;
    EXPECT_EQ(own.Read(), Values(begin, begin + of_image * kSizes.out)) << row;
  }
}

TEST_F(F8ConvolutionTest, RefusesWhatItDoesNotTake) {
  F8ConvolutionArgs args = {.rows = 1, .height = 4, .width = 4, .channels = 96, .out = 16};
  EXPECT_EQ(F8Convolution(args, nullptr), cudaErrorInvalidValue);
  args.channels = 64;
  args.out = 12;
  EXPECT_EQ(F8Convolution(args, nullptr), cudaErrorInvalidValue);
}

// Multiples of tiles, and what is left of one: 64 and 128 columns of the product.
constexpr F8Sizes kGated[] = {{1, 32, 16},    {128, 80, 128},  {129, 160, 48}, {77, 640, 80},
                              {300, 112, 96}, {256, 320, 640}, {1100, 144, 32}};

TEST_F(F8LinearGegluTest, MultipliesValuesByTheirGates) {
  constexpr float kResultScale = 0x1p-6f;
  for (const F8Sizes& s : kGated) {
    for (const bool has_bias : {false, true}) {
      SCOPED_TRACE(::testing::Message()
                   << s.rows << "x" << s.columns << "x" << s.depth << " bias " << has_bias);
      const F8Values x(s.rows * s.depth, 1, DeviationOf(s.depth));
      const F8Values weight(2 * s.columns * s.depth, 2, DeviationOf(s.depth));
      const Values bias = Rounded(Element::kBF16, Normal(2 * s.columns, 3));
      const GpuArray from(Element::kF8E4M3, x.codes), plain(Element::kF8E4M3, weight.codes),
          permuted = GpuArray::Poisoned(Element::kF8E4M3, 2 * s.columns * s.depth),
          scale = One(kScale), result_scale = One(kResultScale), biases(Element::kBF16, bias);
      const GpuArray to = GpuArray::Poisoned(Element::kF8E4M3, s.rows * s.columns);
      ASSERT_EQ(PackF8Gated(plain.data(), permuted.data(), s.columns, s.depth, nullptr),
                cudaSuccess);
      ASSERT_EQ(F8LinearGeglu({Element::kBF16, from.data(), permuted.data(), scale.as<float>(),
                               has_bias ? biases.data() : nullptr, result_scale.as<float>(),
                               to.data(), s.rows, s.columns, s.depth},
                              nullptr),
                cudaSuccess);
      const Values codes = to.Read();
      for (int64_t i = 0; i < s.rows * s.columns; ++i) {
        const int64_t row = i / s.columns, column = i % s.columns;
        const double value = SumOf(x, weight, s.depth, row, column) + (has_bias ? bias[column] : 0);
        const double gate = SumOf(x, weight, s.depth, row, s.columns + column) +
                            (has_bias ? bias[s.columns + column] : 0);
        const double exact = value * gate * 0.5 * std::erfc(-gate * std::sqrt(0.5));
        const double code = exact / kResultScale, size = std::abs(code);
        const double unit = std::ldexp(1, std::max(size == 0 ? -6 : std::ilogb(size), -6) - 3);
        // Half a unit, and what sums of 14 bits and GELU are off by.
        const double more = 3e-3 * (1 + std::abs(value) + std::abs(gate)) / kResultScale;
        ASSERT_NEAR(OfCode(codes[i]), std::clamp(code, -448.0, 448.0), unit / 2 + more)
            << row << ", " << column;
      }
    }
  }
}

TEST_F(F8LinearGegluTest, KeepsNan) {
  constexpr int64_t kColumns = 80, kDepth = 128;
  Values x(2 * kDepth);
  x[kDepth + 5] = 0x7F;
  const GpuArray from(Element::kF8E4M3, x), weight(Element::kF8E4M3, Values(2 * kColumns * kDepth)),
      one = One(1);
  const GpuArray to = GpuArray::Poisoned(Element::kF8E4M3, 2 * kColumns);
  ASSERT_EQ(F8LinearGeglu({Element::kBF16, from.data(), weight.data(), one.as<float>(), nullptr,
                           one.as<float>(), to.data(), 2, kColumns, kDepth},
                          nullptr),
            cudaSuccess);
  const Values codes = to.Read();
  for (int64_t i = 0; i < 2 * kColumns; ++i) EXPECT_EQ(codes[i], i < kColumns ? 0 : 0x7F) << i;
}

TEST_F(F8LinearGegluTest, RefusesWhatItDoesNotTake) {
  F8LinearGegluArgs args = {.rows = 1, .columns = 80, .depth = 24};
  EXPECT_EQ(F8LinearGeglu(args, nullptr), cudaErrorInvalidValue);
  args.depth = 16;
  args.columns = 16;  // half of the columns that are written together
  EXPECT_EQ(F8LinearGeglu(args, nullptr), cudaErrorInvalidValue);
  args.columns = 80;
  args.element = Element::kF32;
  EXPECT_EQ(F8LinearGeglu(args, nullptr), cudaErrorInvalidValue);
}

TEST(F8GatedLineTest, TakesEachLineOnce) {
  for (const int64_t columns : {80, 112, 144, 640}) {
    Values lines;
    for (int64_t line = 0; line < 2 * columns; ++line) lines.push_back(F8GatedLine(line, columns));
    std::sort(lines.begin(), lines.end());
    for (int64_t line = 0; line < 2 * columns; ++line) EXPECT_EQ(lines[line], line) << columns;
  }
}

}  // namespace
}  // namespace latentd::backends::cuda::kernels
