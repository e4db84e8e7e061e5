#include "core/backends/cuda/kernels/products/narrow_convolution.h"

#include <algorithm>
#include <limits>

#include "tests/core/backends/cuda/gpu_array.h"

namespace latentd::backends::cuda::kernels {
namespace {

using NarrowConvolutionGpuTest = GpuTest;

struct NarrowShape {
  int64_t rows, height, width, channels, out;
  bool has_bias = true;

  int64_t pixels() const { return rows * height * width; }
};

constexpr Element kNarrow[] = {Element::kF16, Element::kBF16};

// Parts of tiles and of blocks, images smaller than a kernel, and every number of columns and of
// neighbours that there are kernels for.
constexpr NarrowShape kShapes[] = {
    {1, 1, 1, 32, 1},    {2, 17, 33, 64, 3},  {1, 16, 16, 320, 4}, {2, 40, 5, 96, 8, false},
    {2, 2, 47, 32, 7},   {1, 31, 16, 128, 5}, {1, 1, 1, 1, 32},    {2, 17, 9, 4, 320},
    {1, 33, 16, 3, 128}, {1, 5, 7, 8, 512},   {3, 6, 5, 5, 64},    {2, 12, 11, 2, 96, false},
    {1, 16, 130, 4, 32}, {3, 7, 50, 6, 32},   {2, 9, 33, 7, 64}};

struct NarrowOperands {
  NarrowOperands(Element element, const NarrowShape& s)
      : x(Rounded(element, Normal(s.pixels() * s.channels, 1))),
        weight(Rounded(element, Normal(s.out * 9 * s.channels, 2, 0.1))),
        bias(Rounded(element, Normal(s.out, 3))) {}

  Values x, weight, bias;
};

Values ConvolutionOf(const NarrowShape& s, const NarrowOperands& o) {
  Values result;
  for (int64_t i = 0; i < s.pixels() * s.out; ++i) {
    const int64_t of = i % s.out, pixel = i / s.out;
    const int64_t x = pixel % s.width, y = pixel / s.width % s.height;
    double sum = s.has_bias ? o.bias[of] : 0;
    for (int64_t tap = 0; tap < 9; ++tap) {
      const int64_t at_y = y + tap / 3 - 1, at_x = x + tap % 3 - 1;
      if (at_y < 0 || at_y >= s.height || at_x < 0 || at_x >= s.width) continue;
      const int64_t from = (pixel + (tap / 3 - 1) * s.width + tap % 3 - 1) * s.channels;
      for (int64_t c = 0; c < s.channels; ++c) {
        sum += o.x[from + c] * o.weight[(of * 9 + tap) * s.channels + c];
      }
    }
    result.push_back(sum);
  }
  return result;
}

NarrowConvolutionArgs ArgsOf(Element element, const NarrowShape& s) {
  NarrowConvolutionArgs args;
  args.element = element;
  args.rows = s.rows;
  args.height = s.height;
  args.width = s.width;
  args.channels = s.channels;
  args.out = s.out;
  return args;
}

GpuArray Convolved(Element element, const NarrowShape& s, const NarrowOperands& o) {
  const GpuArray x(element, o.x), weight(element, o.weight), bias(element, o.bias);
  GpuArray result = GpuArray::Poisoned(element, s.pixels() * s.out);
  NarrowConvolutionArgs args = ArgsOf(element, s);
  args.x = x.data();
  args.weight = weight.data();
  args.bias = s.has_bias ? bias.data() : nullptr;
  args.result = result.data();
  EXPECT_EQ(NarrowConvolution(args, nullptr), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return result;
}

TEST_F(NarrowConvolutionGpuTest, IsExactToRounding) {
  for (Element element : kNarrow) {
    for (const NarrowShape& s : kShapes) {
      SCOPED_TRACE(::testing::Message() << s.height << "x" << s.width << " " << s.channels << " to "
                                        << s.out << " " << int(element));
      const NarrowOperands o(element, s);
      ExpectClose(Convolved(element, s, o).Read(), ConvolutionOf(s, o), element, 0.51, 1e-4);
    }
  }
}

TEST_F(NarrowConvolutionGpuTest, ARowDependsOnNothingBesideIt) {
  for (NarrowShape s : {NarrowShape{3, 20, 19, 64, 4}, NarrowShape{3, 20, 19, 4, 64}}) {
    const NarrowOperands all(Element::kBF16, s);
    const std::vector<char> of_all = Convolved(Element::kBF16, s, all).Bytes();
    const int64_t row = s.height * s.width;
    NarrowOperands one = all;
    one.x = Values(all.x.begin() + row * s.channels, all.x.begin() + 2 * row * s.channels);
    s.rows = 1;
    const std::vector<char> of_one = Convolved(Element::kBF16, s, one).Bytes();
    EXPECT_TRUE(std::equal(of_one.begin(), of_one.end(), of_all.begin() + row * s.out * 2));
  }
}

TEST_F(NarrowConvolutionGpuTest, NanStaysWhereAKernelSeesIt) {
  for (const NarrowShape& s : {NarrowShape{1, 20, 40, 64, 4}, NarrowShape{1, 20, 40, 4, 64}}) {
    NarrowOperands o(Element::kF16, s);
    o.x[(10 * s.width + 20) * s.channels] = std::numeric_limits<double>::quiet_NaN();
    ExpectClose(Convolved(Element::kF16, s, o).Read(), ConvolutionOf(s, o), Element::kF16, 0.51,
                1e-4);
  }
}

TEST(NarrowConvolutionTest, IsOfFewChannelsOnOneSide) {
  for (const NarrowShape& s : kShapes) EXPECT_TRUE(IsNarrow(ArgsOf(Element::kBF16, s)));
  const NarrowShape others[] = {
      {1, 8, 8, 64, 9},        {1, 8, 8, 48, 4},        {1, 8, 8, 9, 64},      {1, 8, 8, 4, 48},
      {1, 8, 8, 4, 544},       {1, 8, 8, 4, 4},         {0, 8, 8, 64, 4},      {65536, 1, 1, 64, 4},
      {1, 65536, 1024, 32, 4}, {1, 65536, 1024, 4, 32}, {1, 1048576, 1, 32, 4}};
  for (const NarrowShape& s : others) {
    EXPECT_FALSE(IsNarrow(ArgsOf(Element::kBF16, s))) << s.channels << " to " << s.out;
    EXPECT_EQ(NarrowConvolution(ArgsOf(Element::kBF16, s), nullptr), cudaErrorInvalidValue);
  }
  EXPECT_FALSE(IsNarrow(ArgsOf(Element::kF32, kShapes[0])));
}

}  // namespace
}  // namespace latentd::backends::cuda::kernels
