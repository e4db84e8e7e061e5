#include "core/base/alignment.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace latentd {
namespace {

TEST(RoundUpTest, GivesTheLeastMultipleThatIsNotBelow) {
  for (const int unit : {1, 3, 64, 100}) {
    for (int value = 0; value <= 3 * unit; ++value) {
      const int rounded = RoundUp(value, unit);
      EXPECT_EQ(rounded % unit, 0) << value << ", " << unit;
      EXPECT_GE(rounded, value);
      EXPECT_LT(rounded, value + unit);
    }
  }
}

TEST(RoundUpTest, CountsInTheValuesOwnType) {
  constexpr size_t kLarge = (size_t{1} << 40) + 1;
  static_assert(RoundUp(kLarge, 4096) == (size_t{1} << 40) + 4096);
  static_assert(RoundUp(int64_t{1} << 40, 3) == (int64_t{1} << 40) + 2);
  EXPECT_EQ(RoundUp(uint8_t{200}, 50), 200);
}

}  // namespace
}  // namespace latentd
