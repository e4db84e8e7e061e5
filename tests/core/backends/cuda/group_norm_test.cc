#include "core/backends/cuda/kernels/norms/group_norm.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/core/backends/cuda/gpu_array.h"

namespace latentd::backends::cuda::kernels {
namespace {

using GroupNormTest = GpuTest;

struct Image {
  int64_t rows, pixels, channels, groups;
  bool nhwc = true;
  bool addend = false;
  int64_t offset = 0;
  UnaryFunction activation = UnaryFunction::kSilu;
  int64_t addend_gap = 0;  // elements between the addend's rows

  int64_t addend_pitch() const { return channels + addend_gap; }
  int64_t size() const { return rows * pixels * channels; }
  int64_t At(int64_t row, int64_t pixel, int64_t channel) const {
    return nhwc ? (row * pixels + pixel) * channels + channel
                : (row * channels + channel) * pixels + pixel;
  }
};

struct Operands {
  Values x, addend, gamma, beta;
};

Operands Drawn(const Image& image, Element element, double mean = 0.5) {
  const auto draw = [&](int64_t size, uint32_t seed, double center) {
    return Rounded(element, Normal(size, seed, 1, center));
  };
  return {draw(image.size(), 1, mean),
          image.addend ? draw((image.rows - 1) * image.addend_pitch() + image.channels, 2, 0)
                       : Values(),
          draw(image.channels, 3, 1), draw(image.channels, 4, 0)};
}

double Activated(UnaryFunction activation, double x) {
  if (activation == UnaryFunction::kSilu) return x / (1 + std::exp(-x));
  if (activation == UnaryFunction::kTanh) return std::tanh(x);
  return x;
}

// Normalizes one group of one row; writes its elements of `result`.
void NormalizeGroup(const Image& image, const Operands& of, int64_t row, int64_t group,
                    Values& result) {
  const int64_t channels = image.channels / image.groups, first = group * channels;
  const auto value = [&](int64_t channel, int64_t pixel) {
    const double added = image.addend ? of.addend[row * image.addend_pitch() + channel] : 0;
    return of.x[image.At(row, pixel, channel)] + added;
  };
  const auto sum = [&](const auto& function) {
    double total = 0;
    for (int64_t c = first; c < first + channels; ++c) {
      for (int64_t p = 0; p < image.pixels; ++p) total += function(value(c, p));
    }
    return total / static_cast<double>(channels * image.pixels);
  };
  const double mean = sum([](double v) { return v; });
  const double variance = sum([=](double v) { return (v - mean) * (v - mean); });
  for (int64_t c = first; c < first + channels; ++c) {
    for (int64_t p = 0; p < image.pixels; ++p) {
      const double normal = (value(c, p) - mean) / std::sqrt(variance + 1e-5f);
      result[image.At(row, p, c)] = Activated(image.activation, normal * of.gamma[c] + of.beta[c]);
    }
  }
}

Values Exact(const Image& image, const Operands& of) {
  Values result(of.x.size());
  for (int64_t row = 0; row < image.rows; ++row) {
    for (int64_t group = 0; group < image.groups; ++group) {
      NormalizeGroup(image, of, row, group, result);
    }
  }
  return result;
}

// The operands on the GPU, and a call with them.
class GroupNormCall {
 public:
  GroupNormCall(const Image& image, Element element, const Operands& of)
      : x(element, of.x, image.offset),
        result(GpuArray::Poisoned(element, image.size(), image.offset)),
        addend_(element, of.addend),
        gamma_(element, of.gamma),
        beta_(element, of.beta),
        workspace_(
            GpuArray::Poisoned(Element::kU8, GroupNormWorkspaceBytes(image.rows, image.groups))),
        args{element,
             image.nhwc,
             x.data(),
             image.addend ? addend_.data() : nullptr,
             image.addend_pitch(),
             gamma_.data(),
             beta_.data(),
             result.data(),
             image.activation,
             image.rows,
             image.pixels,
             image.channels,
             image.groups,
             1e-5f,
             workspace_.data()} {}

  GpuArray x, result;

 private:
  GpuArray addend_, gamma_, beta_, workspace_;

 public:
  GroupNormArgs args;
};

void Check(const Image& image, Element element) {
  SCOPED_TRACE(::testing::Message() << image.rows << "x" << image.pixels << "x" << image.channels
                                    << " nhwc " << image.nhwc << " " << int(element));
  const Operands of = Drawn(image, element);
  GroupNormCall call(image, element, of);
  ASSERT_EQ(GroupNorm(call.args, nullptr), cudaSuccess);
  ExpectClose(call.result.Read(), Exact(image, of), element, element == Element::kF32 ? 4 : 0.51,
              4e-6);
  call.args.result = call.x.data();
  ASSERT_EQ(GroupNorm(call.args, nullptr), cudaSuccess);
  EXPECT_EQ(call.x.Bytes(), call.result.Bytes());
}

TEST_F(GroupNormTest, IsExactToRounding) {
  const Image images[] = {
      {1, 1, 1, 1},
      {2, 1, 32, 32},
      {1, 3, 6, 3},
      {3, 7, 10, 5},
      {2, 64, 64, 32, true, true},
      {2, 64, 64, 32, true, false, 1},
      {2, 100, 300, 30, true, true},  // a block that is not of whole warps
      {2, 81, 320, 32, true, true, 0, UnaryFunction::kIdentity},
      {1, 9, 2304, 32, true, true},
      {1, 5, 2560, 32, true, false, 0, UnaryFunction::kTanh},
      {1, 5, 4096, 1024, true, true},
      {2, 1024, 1280, 32},
      {2, 1001, 960, 32, true, true},  // blocks with fewer pixels than others
      {1, 3, 384, 32},                 // and with none
      {3, 77, 640, 32, true, true, 0, UnaryFunction::kTanh},
      {2, 300, 320, 16, true, true},
      {2, 64, 64, 32, false, true},
      {1, 63, 6, 3, false, true, 0, UnaryFunction::kTanh},
      {1, 4096, 64, 8, false, true, 1},
      {1, 1, 4, 2, false},
  };
  for (const Image& image : images) {
    for (Element element : kFloats) Check(image, element);
  }
}

// In each of the ways, where rows are as aligned as packs are, and where they are not; and one row
// for all.
// The codes of a result that is not rounded before, by both kernels of NHWC.
TEST_F(GroupNormTest, WritesEightBitFloats) {
  constexpr float kScale = 0x1p-7f;
  const GpuArray scale(Element::kF32, {kScale});
  for (const auto& [pixels, channels] :
       {std::pair<int64_t, int64_t>{70, 640}, {1025, 1920}, {33, 34}, {9000, 320}}) {
    for (const bool addend : {false, true}) {
      SCOPED_TRACE(::testing::Message() << pixels << "x" << channels << " addend " << addend);
      const Image image = {.rows = 2,
                           .pixels = pixels,
                           .channels = channels,
                           .groups = channels % 32 == 0 ? 32 : 2,
                           .nhwc = true,
                           .addend = addend,
                           .activation = UnaryFunction::kSilu};
      const Operands of = Drawn(image, Element::kBF16);
      GroupNormCall call(image, Element::kBF16, of);
      const GpuArray to = GpuArray::Poisoned(Element::kF8E4M3, image.size());
      call.args.result = to.data();
      call.args.f8_scale = scale.as<float>();
      ASSERT_EQ(GroupNorm(call.args, nullptr), cudaSuccess);
      const Values codes = to.Read(), exact = Exact(image, of);
      for (size_t i = 0; i < codes.size(); ++i) {
        const double code = std::clamp(exact[i] / kScale, -448.0, 448.0), size = std::abs(code);
        const double unit = std::ldexp(1, std::max(size == 0 ? -6 : std::ilogb(size), -6) - 3);
        // Half a unit, and what the number before is off by.
        ASSERT_NEAR(OfCode(codes[i]), code, unit / 2 + 2e-5 * (size + 1 / kScale)) << i;
      }
    }
  }
}

TEST_F(GroupNormTest, RefusesEightBitFloatsThatItDoesNotWrite) {
  const float* const scale = reinterpret_cast<const float*>(16);
  EXPECT_EQ(
      GroupNorm({.nhwc = false, .activation = UnaryFunction::kSilu, .f8_scale = scale}, nullptr),
      cudaErrorInvalidValue);
  EXPECT_EQ(GroupNorm({.nhwc = true, .f8_scale = scale}, nullptr), cudaErrorInvalidValue);
}

TEST_F(GroupNormTest, TakesAnAddendWhoseRowsAreApart) {
  for (const int64_t gap : {960, 1, -320}) {
    for (Image image : {Image{3, 81, 320, 32}, Image{3, 81, 320, 20}, Image{3, 81, 320, 32, false},
                        Image{3, 64, 320, 32, false}}) {
      image.addend = true;
      image.addend_gap = gap;
      for (Element element : kFloats) Check(image, element);
    }
  }
}

TEST_F(GroupNormTest, TakesTheLargestImages) {
  Check({2, 128 * 128, 320, 32}, Element::kBF16);
  Check({2, 128 * 128, 384, 32}, Element::kBF16);
  Check({1, 128 * 128, 320, 32, true, true}, Element::kF32);
  Check({1, 512 * 512, 128, 32}, Element::kBF16);
  Check({1, 128 * 128, 64, 32, false}, Element::kF16);
}

TEST_F(GroupNormTest, SeesDeviationsBesideALargeMean) {
  for (bool nhwc : {true, false}) {
    const Image image = {2, 4096, 256, 32, nhwc, true, 0, UnaryFunction::kIdentity};
    const Operands of = Drawn(image, Element::kF32, 1000);
    GroupNormCall call(image, Element::kF32, of);
    ASSERT_EQ(GroupNorm(call.args, nullptr), cudaSuccess);
    // The mean itself is rounded: to 3e-5 of a deviation.
    ExpectClose(call.result.Read(), Exact(image, of), Element::kF32, 4, 3e-4);
  }
}

// Nor on how the addends of rows lie.
TEST_F(GroupNormTest, ARowDependsOnNothingBesideIt) {
  for (const int64_t gap : {0, 1}) {
    for (bool nhwc : {true, false}) {
      Image image = {3, 1024, 320, 32, nhwc, true};
      image.addend_gap = gap;
      Operands of = Drawn(image, Element::kBF16);
      GroupNormCall all(image, Element::kBF16, of);
      ASSERT_EQ(GroupNorm(all.args, nullptr), cudaSuccess);
      image.rows = 1;
      of.x.erase(of.x.begin(), of.x.begin() + 2 * image.size());
      of.addend.erase(of.addend.begin(), of.addend.begin() + 2 * image.addend_pitch());
      GroupNormCall alone(image, Element::kBF16, of);
      ASSERT_EQ(GroupNorm(alone.args, nullptr), cudaSuccess);
      const Values together = all.result.Read();
      EXPECT_EQ(alone.result.Read(), Values(together.begin() + 2 * image.size(), together.end()));
    }
  }
}

TEST_F(GroupNormTest, TakesOneLaunchForMostOfSdxlsImagesOnHopper) {
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  struct Case {
    int64_t side, channels;
    bool one_launch;
  };
  for (const auto& [side, channels, one_launch] : {Case{128, 320, true},
                                                   {128, 384, true},
                                                   {64, 640, true},
                                                   {64, 1280, true},
                                                   {32, 2560, true},
                                                   {128, 640, false},
                                                   {128, 324, false}}) {
    const Image image = {2, side * side, channels, channels == 324 ? 81 : 32};
    const GpuArray memory = GpuArray::Poisoned(Element::kBF16, image.size());
    GroupNormArgs args = {.element = Element::kBF16,
                          .x = memory.data(),
                          .gamma = memory.data(),
                          .beta = memory.data(),
                          .result = memory.data(),
                          .rows = 2,
                          .pixels = image.pixels,
                          .channels = channels,
                          .groups = image.groups};
    bool has = !one_launch;
    EXPECT_EQ(GroupNormSlab(args, nullptr, has), cudaSuccess);
    EXPECT_EQ(has, one_launch && properties.major == 9) << side << " " << channels;
  }
}

TEST_F(GroupNormTest, NanStaysInItsGroupWhereTwoShareSixteenBytes) {
  const Image image = {1, 64, 320, 32};
  Operands of = Drawn(image, Element::kBF16);
  of.x[image.At(0, 17, 9)] = NAN;  // in channels 8 to 15, the last of the first group
  GroupNormCall call(image, Element::kBF16, of);
  ASSERT_EQ(GroupNorm(call.args, nullptr), cudaSuccess);
  const Values result = call.result.Read();
  for (int64_t i = 0; i < image.size(); ++i) ASSERT_EQ(std::isnan(result[i]), i % 320 < 10) << i;
}

TEST_F(GroupNormTest, NanStaysInItsGroup) {
  for (bool nhwc : {true, false}) {
    const Image image = {1, 64, 64, 8, nhwc};
    Operands of = Drawn(image, Element::kF32);
    of.x[image.At(0, 17, 20)] = NAN;
    of.x[image.At(0, 5, 60)] = INFINITY;
    GroupNormCall call(image, Element::kF32, of);
    ASSERT_EQ(GroupNorm(call.args, nullptr), cudaSuccess);
    const Values result = call.result.Read();
    for (int64_t channel = 0; channel < 64; ++channel) {
      const bool bad = channel / 8 == 2 || channel / 8 == 7;
      for (int64_t pixel = 0; pixel < 64; ++pixel) {
        ASSERT_EQ(std::isnan(result[image.At(0, pixel, channel)]), bad) << channel;
      }
    }
  }
}

TEST_F(GroupNormTest, RefusesMoreChannelsThanABlockHolds) {
  GroupNormArgs args = {.rows = 1, .pixels = 1, .channels = 4104, .groups = 1};
  EXPECT_EQ(GroupNorm(args, nullptr), cudaErrorInvalidValue);
}

TEST_F(GroupNormTest, RunsFromACapturedGraph) {
  const Image image = {2, 4096, 640, 32};
  const Operands of = Drawn(image, Element::kBF16);
  GroupNormCall call(image, Element::kBF16, of);
  cudaStream_t stream;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(GroupNorm(call.args, stream), cudaSuccess);
  cudaGraph_t graph;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphExec_t executable;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(cudaMemset(call.result.data(), 0xff, image.size() * 2), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
    ExpectClose(call.result.Read(), Exact(image, of), Element::kBF16, 0.51, 4e-6);
  }
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace
}  // namespace latentd::backends::cuda::kernels
