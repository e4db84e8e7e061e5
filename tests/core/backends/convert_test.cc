// Conversions between float dtypes in every instruction set that this machine has, against plain
// arithmetic on single values.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "core/backends/cpu/kernels/kernel_table.h"

namespace latentd::backends::cpu {
namespace {

// A format of two bytes: a sign, `exponent` bits, and a mantissa that fills the rest.
struct Format {
  Element element;
  int mantissa, bias;

  int TopExponent() const { return (1 << (15 - mantissa)) - 1; }
};
constexpr Format kBf16 = {Element::kBF16, 7, 127};
constexpr Format kF16 = {Element::kF16, 10, 15};

double ValueOf(const Format& format, uint16_t bits) {
  const int exponent = bits >> format.mantissa & format.TopExponent();
  const int mantissa = bits & ((1 << format.mantissa) - 1);
  const double sign = bits >> 15 != 0 ? -1 : 1;
  if (exponent == format.TopExponent()) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - format.bias - format.mantissa);
  return sign *
         std::ldexp(mantissa + (1 << format.mantissa), exponent - format.bias - format.mantissa);
}

// The bits of what is nearest to `value`, the even one of two; of NaN any NaN's.
uint16_t Nearest(const Format& format, float value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const int infinity = format.TopExponent() << format.mantissa;
  if (std::isnan(value)) return static_cast<uint16_t>(infinity + 1);
  if (std::isinf(value)) return sign | static_cast<uint16_t>(infinity);
  // In units of the last place, which below the normal numbers is that of the least of them.
  const double size = std::fabs(static_cast<double>(value));
  const int exponent = size == 0 ? 1 - format.bias : std::max(std::ilogb(size), 1 - format.bias);
  const double units = std::nearbyint(std::ldexp(size, format.mantissa - exponent));
  // Units of a normal number begin at 2^mantissa; rounded up to the next power they carry.
  const int bits = static_cast<int>(units) + ((exponent + format.bias - 1) << format.mantissa);
  return sign | static_cast<uint16_t>(std::min(bits, infinity));
}

bool IsNan(const Format& format, uint16_t bits) { return std::isnan(ValueOf(format, bits)); }

std::vector<uint16_t> AllBits() {
  std::vector<uint16_t> all;
  for (int bits = 0; bits <= 0xffff; ++bits) all.push_back(static_cast<uint16_t>(bits));
  return all;
}

// Every value of a format, what lies halfway to the next one, and its neighbours; then floats that
// have nothing to do with the format.
std::vector<float> Floats(const Format& format) {
  std::vector<float> floats;
  for (const uint16_t bits : AllBits()) {
    const auto here = static_cast<float>(ValueOf(format, bits));
    const auto next = static_cast<float>(ValueOf(format, static_cast<uint16_t>(bits + 1)));
    const float halfway = here + (next - here) / 2;
    for (const float value : {here, halfway}) {
      floats.push_back(value);
      floats.push_back(std::nextafter(value, INFINITY));
      floats.push_back(std::nextafter(value, -INFINITY));
    }
  }
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4093) {
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  return floats;
}

class Conversions : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    kernels_ = KernelsByName(GetParam());
    if (kernels_ == nullptr) GTEST_SKIP() << "not on this machine";
  }

  template <typename To, typename From>
  std::vector<To> Convert(Element from, Element to, const std::vector<From>& values) {
    std::vector<To> results(values.size());
    kernels_->convert(from, to, values.data(), results.data(), static_cast<int64_t>(values.size()));
    return results;
  }

  void ExpectEachValueWidens(const Format& format) {
    const std::vector<uint16_t> all = AllBits();
    const auto wide = Convert<float>(format.element, Element::kF32, all);
    for (size_t i = 0; i < all.size(); ++i) {
      const auto exact = static_cast<float>(ValueOf(format, all[i]));
      if (std::isnan(exact)) {
        ASSERT_TRUE(std::isnan(wide[i])) << all[i];
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(exact)) << all[i];
      }
    }
  }

  void ExpectFloatsAreRounded(const Format& format) {
    const std::vector<float> floats = Floats(format);
    const auto low = Convert<uint16_t>(Element::kF32, format.element, floats);
    for (size_t i = 0; i < floats.size(); ++i) {
      const uint16_t nearest = Nearest(format, floats[i]);
      const bool both_nan = IsNan(format, low[i]) && IsNan(format, nearest);
      ASSERT_TRUE(low[i] == nearest || both_nan)
          << floats[i] << " became " << low[i] << ", not " << nearest;
    }
  }

  const KernelTable* kernels_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(InstructionSets, Conversions,
                         ::testing::Values("baseline", "avx2", "avx512"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Conversions, WidenEveryValueExactly) {
  ExpectEachValueWidens(kBf16);
  ExpectEachValueWidens(kF16);
}

TEST_P(Conversions, RoundToTheNearestAndOfTwoToTheEven) {
  ExpectFloatsAreRounded(kBf16);
  ExpectFloatsAreRounded(kF16);
}

TEST_P(Conversions, FromOneLowDtypeToTheOtherRoundOnce) {
  for (const auto& [from, to] : {std::pair(kBf16, kF16), std::pair(kF16, kBf16)}) {
    const std::vector<uint16_t> all = AllBits();
    const auto results = Convert<uint16_t>(from.element, to.element, all);
    for (size_t i = 0; i < all.size(); ++i) {
      const uint16_t nearest = Nearest(to, static_cast<float>(ValueOf(from, all[i])));
      ASSERT_TRUE(results[i] == nearest || IsNan(from, all[i])) << all[i];
      ASSERT_EQ(IsNan(to, results[i]), IsNan(from, all[i])) << all[i];
    }
  }
}

TEST_P(Conversions, WriteNothingBehindTheLastElement) {
  for (size_t size = 0; size < 40; ++size) {
    const std::vector<float> ones(size, 1.0f);
    std::vector<uint16_t> results(size + 1, 7);
    kernels_->convert(Element::kF32, Element::kBF16, ones.data(), results.data(),
                      static_cast<int64_t>(size));
    EXPECT_EQ(results.back(), 7);
    results.pop_back();
    EXPECT_EQ(results, std::vector<uint16_t>(size, 0x3f80));
  }
}

}  // namespace
}  // namespace latentd::backends::cpu
