#include "core/backends/cuda/kernels/products/doubling_weight.h"

#include "core/graph/graph_builder.h"
#include "tests/conformance/naive.h"
#include "tests/core/backends/cuda/gpu_array.h"

namespace latentd::backends::cuda::kernels {
namespace {

// [out, in, 3, 3] as [in, 4, 4, out].
Values Doubled(const Values& weight, int64_t out, int64_t in) {
  const DoublingTaps taps;
  Values doubled(in * 16 * out);
  for (int64_t i = 0; i < in * 16 * out; ++i) {
    const int64_t to = i % out, s = i / out % 4, r = i / out / 4 % 4, from = i / out / 16;
    for (int u = taps.begin[r]; u < taps.end[r]; ++u) {
      for (int v = taps.begin[s]; v < taps.end[s]; ++v) {
        doubled[i] += weight[((to * in + from) * 3 + u) * 3 + v];
      }
    }
  }
  return doubled;
}

struct Sizes {
  int64_t rows, height, width, in, out;
};

// Each pixel of x adds its product with the kernel to 4x4 pixels of the result, which lie a stride
// of 2 further for the next; a padding of 1 is cut off.
Values Transposed(const Values& x, const Values& weight, const Sizes& z) {
  Values y(z.rows * 2 * z.height * 2 * z.width * z.out);
  for (int64_t p = 0; p < z.rows * z.height * z.width; ++p) {
    for (int64_t tap = 0; tap < 16; ++tap) {
      const int64_t row = p / z.width % z.height * 2 + tap / 4 - 1;
      const int64_t column = p % z.width * 2 + tap % 4 - 1;
      if (row < 0 || row >= 2 * z.height || column < 0 || column >= 2 * z.width) continue;
      const int64_t plane = p / z.width / z.height;
      double* at = &y[((plane * 2 * z.height + row) * 2 * z.width + column) * z.out];
      for (int64_t i = 0; i < z.in * z.out; ++i) {
        at[i % z.out] +=
            x[p * z.in + i / z.out] * weight[(i / z.out * 16 + tap) * z.out + i % z.out];
      }
    }
  }
  return y;
}

Values ConvolvedAfterUpsampling(const Values& x, const Values& weight, const Sizes& z) {
  graph::GraphBuilder b;
  const auto input = [&](const char* name, const graph::Shape& shape) {
    return b.Input(name, graph::DType::kF32, shape, graph::Rate::kStep);
  };
  const graph::Shape image = {z.rows, z.height, z.width, z.in}, kernel = {z.out, z.in, 3, 3};
  const graph::Value large =
      b.UpsampleNearest(input("x", image), 2 * z.height, 2 * z.width, graph::Layout::kNhwc);
  b.Output("y", b.Conv2d(large, input("w", kernel), graph::kNone,
                         {.padding = {1, 1, 1, 1}, .layout = graph::Layout::kNhwc}));
  const graph::Graph graph = std::move(b).Build().value();
  return testing::EvaluateNaively(graph, {{"x", {image, x}}, {"w", {kernel, weight}}})[0].values;
}

TEST(DoublingTapsTest, MakeAConvolutionOfAnUpsampledImageATransposedOneOfTheSmall) {
  for (const Sizes& z : {Sizes{1, 1, 1, 1, 1}, Sizes{1, 1, 4, 2, 3}, Sizes{2, 5, 3, 4, 2}}) {
    const Values x = Normal(z.rows * z.height * z.width * z.in, 1);
    const Values weight = Normal(z.out * z.in * 9, 2);
    const Values expected = ConvolvedAfterUpsampling(x, weight, z);
    const Values actual = Transposed(x, Doubled(weight, z.out, z.in), z);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-12) << i;
  }
}

using DoublingWeightTest = GpuTest;

TEST_F(DoublingWeightTest, SumsTapsAndRoundsOnce) {
  for (const auto& [out, in] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {64, 24}, {320, 7}}) {
    for (Element element : kFloats) {
      SCOPED_TRACE(::testing::Message() << in << " to " << out << " " << int(element));
      const Values weight = Rounded(element, Normal(out * in * 9, 3));
      const GpuArray from(element, weight), to = GpuArray::Poisoned(element, out * in * 16);
      const DoublingWeightArgs args = {element, from.data(), to.data(), out, in};
      ASSERT_EQ(DoublingWeight(args, nullptr), cudaSuccess);
      // The tolerance is f32's rounding of a sum of four numbers of about 1.
      ExpectClose(to.Read(), Doubled(weight, out, in), element, 0.51, 1e-6);
    }
  }
}

}  // namespace
}  // namespace latentd::backends::cuda::kernels
