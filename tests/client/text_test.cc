#include "client/words/text.h"

#include <gtest/gtest.h>

namespace latentd::client {
namespace {

google::protobuf::Duration Seconds(double seconds) {
  google::protobuf::Duration duration;
  duration.set_seconds(static_cast<int64_t>(seconds));
  duration.set_nanos(static_cast<int32_t>((seconds - static_cast<int64_t>(seconds)) * 1e9));
  return duration;
}

TEST(TextTest, BytesHaveTheUnitThatFits) {
  EXPECT_EQ(BytesText(0), "0");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(BytesText((1 << 20) - 1), "1.0 MiB");  // and not "1024.0 KiB"
  EXPECT_EQ(BytesText(int64_t{5} << 40), "5.0 TiB");
  EXPECT_EQ(BytesText(int64_t{5} << 50), "5120.0 TiB");
}

TEST(TextTest, DurationsAreReadable) {
  EXPECT_EQ(DurationText({}), "-");
  EXPECT_EQ(DurationText(Seconds(0.0123)), "0.012 s");
  EXPECT_EQ(DurationText(Seconds(61.26)), "61.3 s");
  EXPECT_EQ(DurationText(Seconds(600)), "10 min");
}

TEST(TextTest, TimesAreSaidFromNow) {
  const absl::Time now = absl::FromUnixSeconds(1'000'000);
  EXPECT_EQ(AgoText(absl::InfinitePast(), now), "never");
  EXPECT_EQ(AgoText(now - absl::Seconds(3), now), "3 s ago");
  EXPECT_EQ(AgoText(now + absl::Seconds(3), now), "0 s ago");  // clocks differ
  EXPECT_EQ(AgoText(now - absl::Minutes(5), now), "5 min ago");
  EXPECT_EQ(AgoText(now - absl::Hours(5), now), "5 h ago");
  EXPECT_EQ(AgoText(now - absl::Hours(96), now), "4 d ago");
}

TEST(TextTest, ColumnsAreAlignedAndLinesEndWithTheirText) {
  EXPECT_EQ(TableText({{"ID", "GRAPH", "N"}, {"abcdef", "vae"}, {"1", "unet step", "2"}}),
            "ID      GRAPH      N\n"
            "abcdef  vae\n"
            "1       unet step  2\n");
  EXPECT_EQ(TableText({}), "");
}

}  // namespace
}  // namespace latentd::client
