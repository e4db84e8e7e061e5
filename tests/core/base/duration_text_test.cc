#include "core/base/text/duration_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace latentd {
namespace {

using ::testing::Optional;

TEST(DurationTextTest, ANumberWithoutAUnitIsSeconds) {
  EXPECT_THAT(ParseDurationText("5"), Optional(absl::Seconds(5)));
  EXPECT_THAT(ParseDurationText("0.5"), Optional(absl::Milliseconds(500)));
  EXPECT_THAT(ParseDurationText("-1"), Optional(absl::Seconds(-1)));
}

TEST(DurationTextTest, UnitsAdd) {
  EXPECT_THAT(ParseDurationText("5s"), Optional(absl::Seconds(5)));
  EXPECT_THAT(ParseDurationText("2m"), Optional(absl::Minutes(2)));
  EXPECT_THAT(ParseDurationText("1m30s"), Optional(absl::Seconds(90)));
  EXPECT_THAT(ParseDurationText("500ms"), Optional(absl::Milliseconds(500)));
}

TEST(DurationTextTest, TheRestIsNone) {
  for (const char* text : {"", "s", "soon", "5 s", "5x", "1m30", "nan"}) {
    EXPECT_EQ(ParseDurationText(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace latentd
