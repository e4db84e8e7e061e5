// The reference backend's 8-bit floats, which those of other backends are compared with: every code
// of e4m3, and every number in the middle of two.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/backends/reference/evaluate.h"
#include "core/graph/graph_builder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/stored_weight.h"

namespace latentd::backends::reference {
namespace {

using device::Buffer;
using device::ConstBuffer;
using device::DType;
using graph::GraphBuilder;
using graph::Value;

// Positive codes, without NaN's.
constexpr int kCodes = 0x7F;

// The format as OCP's paper on FP8 has it: a bias of 7, three bits of mantissa, no infinity.
double ValueOf(int code) {
  const int exponent = code >> 3, mantissa = code & 7;
  return exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
}

// The codes of these numbers.
std::vector<uint8_t> Quantized(const std::vector<float>& x, float scale = 1,
                               DType dtype = DType::kF32) {
  const Buffer given = Buffer::Allocate(DType::kF32, {static_cast<int64_t>(x.size())});
  std::copy(x.begin(), x.end(), given.as<float>().begin());
  GraphBuilder b;
  const Value read = b.Cast(b.Weight("x", given.shape()), dtype);
  b.Output("y", b.Quantize(read, b.Scalar(scale)));
  const graph::Graph graph = std::move(b).Build().value();
  const ConstBuffer source = given;
  const auto made = EvaluateRecipe(graph, {&source, 1});
  EXPECT_OK(made);
  EXPECT_EQ(made->dtype(), DType::kF8E4M3);
  const auto* codes = static_cast<const uint8_t*>(made->data());
  return {codes, codes + made->bytes()};
}

TEST(E4M3, GivesEveryNumberItsOwnCode) {
  std::vector<float> x;
  for (int code = 0; code < kCodes; ++code) x.push_back(static_cast<float>(ValueOf(code)));
  for (int code = 0; code < kCodes; ++code) x.push_back(-x[code]);
  const std::vector<uint8_t> codes = Quantized(x);
  for (int code = 0; code < kCodes; ++code) {
    EXPECT_EQ(codes[code], code);
    EXPECT_EQ(codes[kCodes + code], 0x80 | code);
  }
  EXPECT_EQ(Quantized(x, 0x1p-20f)[1], 0x7E) << "far too large for e4m3";
}

TEST(E4M3, RoundsTheMiddleOfTwoToTheEvenOneAndAllElseToTheNearest) {
  for (int code = 0; code + 1 < kCodes; ++code) {
    const double middle = (ValueOf(code) + ValueOf(code + 1)) / 2;
    const float tie = static_cast<float>(middle);
    ASSERT_EQ(tie, middle);
    const std::vector<uint8_t> codes =
        Quantized({tie, std::nextafter(tie, 0.0f), std::nextafter(tie, 1000.0f), -tie});
    EXPECT_EQ(codes[0], code % 2 == 0 ? code : code + 1) << middle;
    EXPECT_EQ(codes[1], code);
    EXPECT_EQ(codes[2], code + 1);
    EXPECT_EQ(codes[3], 0x80 | codes[0]);
  }
}

TEST(E4M3, SaturatesAndShowsWhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Quantized({448, 449, 463.9f, 464, 480, 1e30f, -464, -1e30f}),
              ::testing::ElementsAre(0x7E, 0x7E, 0x7E, 0x7E, 0x7E, 0x7E, 0xFE, 0xFE));
  for (const uint8_t code : Quantized({kInfinity, -kInfinity, NAN})) EXPECT_EQ(code & 0x7F, 0x7F);
  EXPECT_THAT(Quantized({1e30f}, 0x1p-20f), ::testing::ElementsAre(0x7E))
      << "finite, though the quotient is not";
}

TEST(E4M3, IsDividedByItsScale) {
  EXPECT_EQ(Quantized({3, -0.75f, 100}, 4), Quantized({0.75f, -0.1875f, 25}));
  EXPECT_EQ(Quantized({3, -0.75f, 100}, 0x1p-2f, DType::kBF16), Quantized({12, -3, 400}));
}

TEST(F8Scale, IsTheLeastPowerOfTwoThatMakesANumberFit) {
  const std::vector<float> x = {
      448, std::nextafter(448.f, 500.f), 224, 225, 1, 1.75f, 1e-4f, 3e38f, 1e-38f, 0, NAN};
  const Buffer given = Buffer::Allocate(DType::kF32, {static_cast<int64_t>(x.size())});
  std::copy(x.begin(), x.end(), given.as<float>().begin());
  GraphBuilder b;
  b.Output("y", b.F8Scale(b.Weight("x", given.shape())));
  const ConstBuffer source = given;
  ASSERT_OK_AND_ASSIGN(const ConstBuffer made,
                       EvaluateRecipe(std::move(b).Build().value(), {&source, 1}));
  const auto* scales = static_cast<const float*>(made.data());
  for (size_t i = 0; i < 8; ++i) {
    int exponent = 0;
    EXPECT_EQ(std::frexp(scales[i], &exponent), 0.5f) << x[i];
    EXPECT_LE(x[i] / scales[i], 448) << x[i];
    EXPECT_GT(x[i] / scales[i], 224) << x[i];
  }
  EXPECT_EQ(scales[8], 0x1p-100f);
  EXPECT_EQ(scales[9], 1);
  EXPECT_EQ(scales[10], 1);
}

// Products of integers that e4m3 has are exact, whatever the order of their sums.
TEST(F8Linear, IsExactForSmallIntegers) {
  constexpr int64_t kRows = 3, kDepth = 16, kColumns = 16;
  const Buffer x = Buffer::Allocate(DType::kF32, {kRows, kDepth});
  const Buffer weight = Buffer::Allocate(DType::kF32, {kColumns, kDepth});
  for (int64_t i = 0; i < kRows * kDepth; ++i)
    x.as<float>()[i] = static_cast<float>(i * 7 % 17 - 8);
  for (int64_t i = 0; i < kColumns * kDepth; ++i) {
    weight.as<float>()[i] = static_cast<float>(i * 5 % 13 - 6);
  }
  GraphBuilder b;
  const Value of_x = b.Quantize(b.Weight("x", x.shape()), b.Scalar(1));
  const Value of_weight = b.Quantize(b.Weight("weight", weight.shape()), b.Scalar(2));
  const Value product = b.F8Linear(of_x, of_weight, b.Scalar(0.5f), graph::kNone, DType::kBF16);
  b.Output("y", b.Cast(product, DType::kF32));
  const ConstBuffer sources[] = {x, weight};
  ASSERT_OK_AND_ASSIGN(const ConstBuffer made,
                       EvaluateRecipe(std::move(b).Build().value(), sources));
  const auto* values = static_cast<const float*>(made.data());
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t column = 0; column < kColumns; ++column) {
      float sum = 0;
      for (int64_t k = 0; k < kDepth; ++k) {
        sum += x.as<float>()[row * kDepth + k] * weight.as<float>()[column * kDepth + k] / 2;
      }
      EXPECT_NEAR(values[row * kColumns + column], sum * 0.5f, std::abs(sum) * 0x1p-9);
    }
  }
}

}  // namespace
}  // namespace latentd::backends::reference
