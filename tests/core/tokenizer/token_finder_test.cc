#include "core/tokenizer/token_finder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace latentd::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr auto kText = std::nullopt;

TEST(TokenFinderTest, CutsTokensOutOfATextThatItCovers) {
  const TokenFinder finder({{U"<x>", 7}});
  EXPECT_THAT(finder.Split(U"a<x><x>b"),
              ElementsAre(FieldsAre(U"a", kText), FieldsAre(U"<x>", Optional(7)),
                          FieldsAre(U"<x>", Optional(7)), FieldsAre(U"b", kText)));
}

TEST(TokenFinderTest, TakesTheLeftmostAndOfThoseTheLongest) {
  const TokenFinder finder({{U"ab", 1}, {U"abc", 2}, {U"bcd", 3}});
  EXPECT_THAT(finder.Split(U"abcd"),
              ElementsAre(FieldsAre(U"abc", Optional(2)), FieldsAre(U"d", kText)));
}

TEST(TokenFinderTest, TakesWordsOfTheirOwnAndLooksForNothingWithinTheOthers) {
  const TokenFinder finder({{U"cat", 1, /*single_word=*/true}, {U"at", 2}});
  EXPECT_THAT(finder.Split(U"cat-cats at"),
              ElementsAre(FieldsAre(U"cat", Optional(1)), FieldsAre(U"-cats ", kText),
                          FieldsAre(U"at", Optional(2))));
  EXPECT_THAT(finder.Split(U"_cat"), ElementsAre(FieldsAre(U"_cat", kText)));
}

TEST(TokenFinderTest, FindsNothingInAnEmptyText) {
  EXPECT_THAT(TokenFinder({{U"x", 1}}).Split(U""), IsEmpty());
}

TEST(TokenFinderTest, LeavesTokensWithoutTextOut) {
  EXPECT_THAT(TokenFinder({{U"", 1}}).Split(U"ab"), ElementsAre(FieldsAre(U"ab", kText)));
}

}  // namespace
}  // namespace latentd::tokenizer
