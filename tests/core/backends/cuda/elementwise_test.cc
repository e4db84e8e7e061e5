#include "core/backends/cuda/kernels/values/elementwise.h"

#include <cmath>
#include <functional>

#include "tests/core/backends/cuda/gpu_array.h"

namespace latentd::backends::cuda::kernels {
namespace {

using ElementwiseTest = GpuTest;

constexpr int64_t kSizes[] = {1, 7, 8, 1000, 4097, 300001};

Values Mapped(Values values, const std::function<double(double)>& function) {
  for (double& value : values) value = function(value);
  return values;
}

double Gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

struct UnaryCase {
  UnaryFunction function;
  double (*exact)(double);
  double ulps_f32;
};

const UnaryCase kUnary[] = {
    {UnaryFunction::kIdentity, [](double x) { return x; }, 0},
    {UnaryFunction::kSilu, [](double x) { return x / (1 + std::exp(-x)); }, 4},
    {UnaryFunction::kGelu, Gelu, 8},
    // The product with 1.702 is rounded before the exponential magnifies it.
    {UnaryFunction::kQuickGelu, [](double x) { return x / (1 + std::exp(-1.702 * x)); }, 32},
    {UnaryFunction::kRelu, [](double x) { return x < 0 ? 0 : x; }, 0},
    {UnaryFunction::kTanh, [](double x) { return std::tanh(x); }, 3},
    {UnaryFunction::kExp, [](double x) { return std::exp(x); }, 3},
};

// One rounding at the end, whatever is computed before.
double UlpsOf(const UnaryCase& test, Element element) {
  if (element == Element::kF32 || test.ulps_f32 == 0) return test.ulps_f32;
  return 0.51;
}

Values WithLimits(Values values) {
  const double limits[] = {NAN, 0, 1e-7, -1e-7, 20, -20, 100, -100, 60000, -60000, 6, -6, 13, -13};
  std::copy(std::begin(limits), std::end(limits),
            values.end() - std::min(values.size(), std::size(limits)));
  return values;
}

TEST_F(ElementwiseTest, UnaryFunctionsRoundOnce) {
  constexpr int64_t kSize = 300001;
  for (const UnaryCase& test : kUnary) {
    for (Element element : kFloats) {
      SCOPED_TRACE(::testing::Message() << int(test.function) << " of " << int(element));
      const Values x = Rounded(element, WithLimits(Normal(kSize, 1, 4)));
      const GpuArray from(element, x), to = GpuArray::Poisoned(element, kSize);
      ASSERT_EQ(Unary({test.function, element, from.data(), to.data(), kSize}, nullptr),
                cudaSuccess);
      ExpectClose(to.Read(), Mapped(x, test.exact), element, UlpsOf(test, element), 1e-35);
    }
  }
}

TEST_F(ElementwiseTest, UnaryTakesEverySizeAndPlaceAndItsOwnOperand) {
  for (Element element : kFloats) {
    for (int64_t size : kSizes) {
      for (int offset : {0, 1}) {
        const Values x = Rounded(element, Normal(size, 2));
        const GpuArray from(element, x, offset), to = GpuArray::Poisoned(element, size, 1 - offset);
        UnaryArgs args = {UnaryFunction::kSilu, element, from.data(), to.data(), size};
        ASSERT_EQ(Unary(args, nullptr), cudaSuccess);
        ExpectClose(to.Read(), Mapped(x, kUnary[1].exact), element, 4);
        args.result = from.data();
        ASSERT_EQ(Unary(args, nullptr), cudaSuccess);
        EXPECT_EQ(from.Bytes(), to.Bytes());
      }
    }
  }
}

TEST_F(ElementwiseTest, RefusesIntegers) {
  EXPECT_EQ(Unary({UnaryFunction::kExp, Element::kI64}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(Cast({Element::kF32, Element::kU8}, nullptr), cudaErrorInvalidValue);
}

TEST_F(ElementwiseTest, ClampKeepsNan) {
  for (Element element : kFloats) {
    const Values x = {-INFINITY, -3, -0.5, 0, 0.5, 3, INFINITY, NAN, 1};
    const GpuArray from(element, x), to = GpuArray::Poisoned(element, 9);
    ASSERT_EQ(Clamp({-1, 0.5f, element, from.data(), to.data(), 9}, nullptr), cudaSuccess);
    ExpectClose(to.Read(), {-1, -1, -0.5, 0, 0.5, 0.5, 0.5, NAN, 0.5}, element, 0);
  }
}

TEST_F(ElementwiseTest, CastsRoundToNearestEvenAndKeepNan) {
  // Ties of bf16 and f16, what overflows f16, subnormals.
  const Values floats = {1 + 1.0 / 256, 1 + 3.0 / 256, 1 + 1.0 / 2048, 1 + 3.0 / 2048, 65519,
                         65520,         -70000,        1e-7,           6e-8,           NAN,
                         INFINITY,      -INFINITY,     3e38,           3.4e38,         -0.3};
  for (Element from : {Element::kF32, Element::kF16, Element::kBF16, Element::kI64, Element::kU8}) {
    for (Element to : kFloats) {
      for (int64_t size : kSizes) {
        SCOPED_TRACE(::testing::Message() << int(from) << " to " << int(to) << " " << size);
        const bool integers = from == Element::kI64 || from == Element::kU8;
        Values x = integers ? Mapped(Normal(size, 3, 50, 100),
                                     [](double v) { return std::clamp(std::round(v), 0.0, 255.0); })
                            : Normal(size, 4);
        if (!integers && size > 1000) std::copy(floats.begin(), floats.end(), x.begin());
        x = Rounded(from, x);
        const GpuArray source(from, x), result = GpuArray::Poisoned(to, size);
        ASSERT_EQ(Cast({from, to, source.data(), result.data(), size}, nullptr), cudaSuccess);
        ExpectClose(result.Read(), Rounded(to, x), to, 0);
      }
    }
  }
}

double ValueOfF8(Element element, int code) {
  const int mantissa = element == Element::kF8E4M3 ? 3 : 2;
  const int bias = element == Element::kF8E4M3 ? 7 : 15;
  const int exponent = (code & 0x7F) >> mantissa, rest = code & ((1 << mantissa) - 1);
  const double sign = code < 0x80 ? 1 : -1;
  if (element == Element::kF8E4M3 && (code & 0x7F) == 0x7F) return NAN;
  if (element == Element::kF8E5M2 && exponent == 31) return rest != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(rest, 1 - bias - mantissa);
  return sign * std::ldexp(rest + (1 << mantissa), exponent - bias - mantissa);
}

TEST_F(ElementwiseTest, CastsOfEightBitFloatsAreExact) {
  for (Element from : {Element::kF8E4M3, Element::kF8E5M2}) {
    for (Element to : kFloats) {
      for (int64_t size : {int64_t{256}, int64_t{1003}}) {
        SCOPED_TRACE(::testing::Message() << int(from) << " to " << int(to) << " " << size);
        Values codes, expected;
        for (int64_t i = 0; i < size; ++i) {
          codes.push_back(static_cast<double>(i % 256));
          expected.push_back(ValueOfF8(from, static_cast<int>(i % 256)));
        }
        const GpuArray source(from, codes), result = GpuArray::Poisoned(to, size);
        ASSERT_EQ(Cast({from, to, source.data(), result.data(), size}, nullptr), cudaSuccess);
        ExpectClose(result.Read(), expected, to, 0);
      }
    }
  }
}

TEST_F(ElementwiseTest, PixelsAreRoundedToNearestEvenAndNanIsBlack) {
  for (Element element : kFloats) {
    for (int64_t size : kSizes) {
      Values x = Normal(size, 5);
      if (size >= 8) {
        const double limits[] = {NAN, INFINITY, -INFINITY, -1, 1, 0, 2.0 / 255 - 1, 1.0 / 255 - 1};
        std::copy(std::begin(limits), std::end(limits), x.begin());
      }
      x = Rounded(element, x);
      const Values exact = Mapped(x, [](double v) {
        const float unit = static_cast<float>(v) * 0.5f + 0.5f;
        return std::isnan(unit) ? 0 : std::nearbyint(std::clamp(unit, 0.0f, 1.0f) * 255);
      });
      const GpuArray from(element, x), to = GpuArray::Poisoned(Element::kU8, size);
      ASSERT_EQ(ToPixels({element, from.data(), to.as<uint8_t>(), size}, nullptr), cudaSuccess);
      EXPECT_EQ(to.Read(), exact);
    }
  }
}

TEST_F(ElementwiseTest, IncrementCountsInPlace) {
  const GpuArray x(Element::kI64, {-1, 0, 41, 1e15}, 1);
  ASSERT_EQ(Increment({x.as<int64_t>(), x.as<int64_t>(), 4}, nullptr), cudaSuccess);
  EXPECT_EQ(x.Read(), (Values{0, 1, 42, 1e15 + 1}));
}

TEST_F(ElementwiseTest, GegluMultipliesHalves) {
  struct Case {
    int64_t rows, channels;
    int offset;
  };
  for (const auto& [rows, channels, offset] :
       {Case{1, 1, 0}, {3, 5, 0}, {5, 64, 0}, {5, 64, 1}, {7, 100, 0}, {1000, 2560, 0}}) {
    for (Element element : kFloats) {
      const Values x = Rounded(element, Normal(rows * 2 * channels, 6, 2));
      Values exact(rows * channels);
      for (int64_t i = 0; i < rows * channels; ++i) {
        const int64_t from = i / channels * 2 * channels + i % channels;
        exact[i] = x[from] * Gelu(x[from + channels]);
      }
      const GpuArray from(element, x, offset);
      const GpuArray to = GpuArray::Poisoned(element, rows * channels, offset);
      ASSERT_EQ(Geglu({element, from.data(), to.data(), rows, channels}, nullptr), cudaSuccess);
      ExpectClose(to.Read(), exact, element, element == Element::kF32 ? 8 : 0.51, 1e-35);
    }
  }
}

}  // namespace
}  // namespace latentd::backends::cuda::kernels
