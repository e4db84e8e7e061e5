#include "core/base/text/text.h"

#include <gtest/gtest.h>

#include <vector>

namespace latentd {
namespace {

TEST(ExcerptTest, GivesShortInputAsItIs) {
  EXPECT_EQ(Excerpt(""), "");
  EXPECT_EQ(Excerpt(R"(a "b" 'c' \d)"), R"(a "b" 'c' \d)");
  EXPECT_EQ(Excerpt(std::string(64, 'x')), std::string(64, 'x'));
}

TEST(ExcerptTest, EscapesWhatDoesNotPrint) {
  EXPECT_EQ(Excerpt("a\nb\x01\xff"), R"(a\nb\x01\xff)");
}

TEST(ExcerptTest, CutsLongInput) {
  EXPECT_EQ(Excerpt(std::string(65, 'x')), std::string(64, 'x') + "...");
  EXPECT_EQ(Excerpt(std::string(65, 'x'), 65), std::string(65, 'x'));
  EXPECT_EQ(Excerpt("abcd", 3), "abc...");
}

TEST(ListSomeTest, NamesTheFirstAndCountsTheRest) {
  EXPECT_EQ(ListSome({}, 3), "");
  EXPECT_EQ(ListSome({"a", "b", "c"}, 3), "a, b, c");
  EXPECT_EQ(ListSome({"a", "b", "c", "d"}, 3), "a, b, c, and 1 more");
  EXPECT_EQ(ListSome(std::vector<std::string>(30, "x"), 2, "; "), "x; x; and 28 more");
}

TEST(SizeTextTest, IsWidthThenHeight) {
  struct Picture {
    int width, height;
  };
  EXPECT_EQ(SizeText(256, 192), "256x192");
  EXPECT_EQ(SizeText(Picture{192, 256}), "192x256");
}

}  // namespace
}  // namespace latentd
