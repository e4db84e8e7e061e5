#include "core/base/process/memory_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace latentd {
namespace {

using ::testing::Optional;

TEST(ParseMemAvailableTest, ReadsKibibytes) {
  EXPECT_THAT(ParseMemAvailable("MemTotal:  10 kB\nMemFree: 3 kB\nMemAvailable:       5 kB\n"),
              Optional(5 * 1024));
}

TEST(ParseMemAvailableTest, IgnoresWhatIsNotThereOrNoNumber) {
  for (const char* text : {"", "MemTotal: 10 kB\n", "MemAvailable: x kB\n", "MemAvailable: -5 kB\n",
                           "MemAvailable: 9223372036854775807 kB\n"}) {
    EXPECT_EQ(ParseMemAvailable(text), std::nullopt) << text;
  }
}

TEST(ParseMemoryLimitTest, ReadsBytes) {
  EXPECT_THAT(ParseMemoryLimit("1048576\n"), Optional(1 << 20));
}

TEST(ParseMemoryLimitTest, KnowsNoLimitInBothVersions) {
  EXPECT_EQ(ParseMemoryLimit("max\n"), std::nullopt);
  EXPECT_EQ(ParseMemoryLimit("9223372036854771712\n"), std::nullopt);
  EXPECT_EQ(ParseMemoryLimit(""), std::nullopt);
}

TEST(ParseMemoryStatTest, FindsTheWholeKeyOnly) {
  const char text[] = "anon 7\ntotal_inactive_file 3\ninactive_file 42\nfile 1\n";
  EXPECT_THAT(ParseMemoryStat(text, "inactive_file"), Optional(42));
  EXPECT_EQ(ParseMemoryStat(text, "active_file"), std::nullopt);
}

TEST(MeasureAvailableMemoryTest, SaysHowMuchAndWhy) {
  const AvailableMemory available = MeasureAvailableMemory();
  EXPECT_GT(available.bytes, 0);
  EXPECT_FALSE(available.source.empty());
}

}  // namespace
}  // namespace latentd
