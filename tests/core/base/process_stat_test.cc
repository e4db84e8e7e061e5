#include "core/base/process/process_stat.h"

#include <gtest/gtest.h>

#include <string>

namespace latentd {
namespace {

constexpr char kStat[] =
    "12462 (a) name (b) R 12452 12452 6772 0 -1 4194304 103 0 0 0 250 50 0 0 20 0 7 0 122943 "
    "3133440 "
    "407 18446744073709551615 94625667457024 94625667476905 140734104049040 0 0 0 0 0 0 0 0 0 17 "
    "1\n";

TEST(ProcessStatTest, TheKernelsFieldsAreFoundBehindAnyName) {
  const std::optional<ProcessStat> stat = ParseProcessStat(kStat);
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->cpu_ticks, 300);
  EXPECT_EQ(stat->threads, 7);
  EXPECT_EQ(stat->start_ticks, 122943);
  EXPECT_EQ(stat->virtual_bytes, 3133440);
  EXPECT_EQ(stat->resident_pages, 407);
}

TEST(ProcessStatTest, TextThatEndsEarlyIsNoStat) {
  const std::string text = kStat;
  const size_t last_needed = text.find("407") + 1;
  for (size_t size = 0; size < last_needed; ++size) {
    EXPECT_FALSE(ParseProcessStat(text.substr(0, size)).has_value()) << size;
  }
  EXPECT_FALSE(ParseProcessStat("1 (x) R many words that are no numbers at all, and on they go one "
                                "after the other until there are twenty-four")
                   .has_value());
}

TEST(ProcessStatTest, ThisProcessHasMemory) { EXPECT_GT(ResidentBytes().value_or(0), 1 << 16); }

}  // namespace
}  // namespace latentd
