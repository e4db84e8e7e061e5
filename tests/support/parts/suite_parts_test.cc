#include "tests/support/parts/suite_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace latentd::testing {
namespace {

using ::testing::ElementsAre;

const std::vector<Suite>& Suites() {
  static const auto& suites = *new std::vector<Suite>{
      {"Small", 1}, {"Large", 20}, {"InstructionSets/Odd", 3}, {"Middle", 9}, {"Other", 9}};
  return suites;
}

TEST(SuitePartsTest, EachSuiteIsInOnePart) {
  for (int parts = 1; parts <= 7; ++parts) {
    std::map<std::string, int> found;
    for (int part = 1; part <= parts; ++part) {
      for (const std::string& suite : SuitesOfPart(Suites(), part, parts)) ++found[suite];
    }
    EXPECT_EQ(found.size(), Suites().size()) << parts;
    for (const auto& [suite, times] : found) EXPECT_EQ(times, 1) << suite << " of " << parts;
  }
}

TEST(SuitePartsTest, PartsHaveAboutAsMuchToDo) {
  EXPECT_THAT(SuitesOfPart(Suites(), 1, 2), ElementsAre("Large", "InstructionSets/Odd"));
  EXPECT_THAT(SuitesOfPart(Suites(), 2, 2), ElementsAre("Middle", "Other", "Small"));
}

TEST(SuitePartsTest, TheFilterKeepsWhatAnotherLeavesOut) {
  EXPECT_EQ(FilterOf({"A", "B"}, "*"), "A.*:B.*");
  EXPECT_EQ(FilterOf({"A", "B"}, "-A.Slow:C.*"), "A.*:B.*-A.Slow:C.*");
  EXPECT_EQ(FilterOf({"A"}, "*-A.Slow"), "A.*-A.Slow");
  EXPECT_EQ(FilterOf({}, "*"), "none.none");
}

TEST(SuitePartsTest, ATestThatIsAskedForRunsInAnyPart) {
  EXPECT_EQ(FilterOf({"A"}, "B.First"), "B.First");
  EXPECT_EQ(FilterOf({"A"}, "B.*-B.First"), "B.*-B.First");
}

TEST(SuitePartsTest, ReadsParts) {
  int part = 0, parts = 0;
  ASSERT_TRUE(ReadPart("2/4", part, parts));
  EXPECT_EQ(part, 2);
  EXPECT_EQ(parts, 4);
  for (const char* text : {"", "2", "0/4", "5/4", "2/4x", "x/4"}) {
    EXPECT_FALSE(ReadPart(text, part, parts)) << text;
  }
}

}  // namespace
}  // namespace latentd::testing
