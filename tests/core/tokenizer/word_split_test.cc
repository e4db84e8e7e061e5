#include "core/tokenizer/word_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/tokenizer/unicode.h"

namespace latentd::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Words(std::u32string_view text) {
  std::vector<std::string> words;
  SplitWords(text, [&](std::u32string_view word) { words.push_back(EncodeUtf8(word)); });
  return words;
}

TEST(SplitWordsTest, SplitsWhereTheClassChanges) {
  EXPECT_THAT(Words(U"ab12 c!?d"), ElementsAre("ab", "1", "2", "c", "!?", "d"));
}

TEST(SplitWordsTest, DropsSpace) { EXPECT_THAT(Words(U" \u3000 "), IsEmpty()); }

TEST(SplitWordsTest, KeepsContractionsAtTheStartOfAWordOnly) {
  EXPECT_THAT(Words(U"it's we'll 'sa !'s"),
              ElementsAre("it", "'s", "we", "'ll", "'s", "a", "!'", "s"));
}

TEST(SplitWordsTest, DividesTheTextOfSpecialTokens) {
  EXPECT_THAT(Words(U"<|endoftext|>!!"), ElementsAre("<|", "endoftext", "|>", "!!"));
  EXPECT_THAT(Words(U"!<|endoftext|>"), ElementsAre("!<|", "endoftext", "|>"));
  EXPECT_THAT(Words(U"<|middle|>!!"), ElementsAre("<|", "middle", "|>!!"));
}

}  // namespace
}  // namespace latentd::tokenizer
