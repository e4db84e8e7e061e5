#include "core/prompts/chunks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/tokenizer/tokenizer_folder.h"
#include "tests/support/status_matchers.h"

namespace latentd::prompts {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using tokenizer::ClipTokenizer;

// SDXL's second tokenizer, which pads with another token than it ends with.
const ClipTokenizer& Demo() {
  static const ClipTokenizer& demo =
      *ClipTokenizer::Load(tokenizer::TokenizerFolder::Demo("tokenizer_2").string())
           .value()
           .release();
  return demo;
}

std::string Words(int count) {
  std::string words;
  for (int i = 0; i < count; ++i) words += "a ";
  return words;
}

TEST(FirstChunkTest, IsThePaddedPromptWhereThereAreNoWeights) {
  for (const std::string& text : {std::string(), std::string("a red circle"), Words(90)}) {
    const auto chunks = FirstChunk({{text}}, Demo());
    ASSERT_OK(chunks);
    const tokenizer::Encoding padded = Demo().EncodePadded(text);
    ASSERT_THAT(chunks->chunks, SizeIs(1));
    EXPECT_EQ(chunks->chunks.front().ids, padded.ids);
    EXPECT_THAT(chunks->chunks.front().weights, Each(1));
    EXPECT_FALSE(chunks->chunks.front().has_weights());
    EXPECT_EQ(chunks->dropped, padded.dropped);
  }
}

TEST(FirstChunkTest, GivesEachTokenTheWeightOfItsPiece) {
  const auto chunks = FirstChunk({{"a ", 1}, {"red circle", 1.5}, {" a", 0.5}}, Demo());
  ASSERT_OK(chunks);
  const Chunk& chunk = chunks->chunks.front();
  EXPECT_TRUE(chunk.has_weights());
  const size_t weighted = Demo().Tokenize("red circle").size();
  ASSERT_GE(weighted, 2u);
  std::vector<double> weights(77, 1);
  for (size_t i = 0; i < weighted; ++i) weights[2 + i] = 1.5;
  weights[2 + weighted] = 0.5;
  EXPECT_EQ(chunk.weights, weights);
  EXPECT_EQ(chunk.ids, Demo().EncodePadded("a red circle a").ids);
  EXPECT_EQ(chunks->tokens, static_cast<int64_t>(weighted) + 2);
}

TEST(FirstChunkTest, CountsTheTokensThatItDrops) {
  const auto chunks = FirstChunk({{Words(70), 1}, {Words(10), 2}}, Demo());
  ASSERT_OK(chunks);
  EXPECT_EQ(chunks->tokens, 80);
  EXPECT_EQ(chunks->dropped, 5);
  const Chunk& chunk = chunks->chunks.front();
  EXPECT_EQ(chunk.weights[75], 2);
  EXPECT_EQ(chunk.weights[76], 1);
  EXPECT_EQ(chunk.ids[76], Demo().end_id());
}

TEST(FirstChunkTest, RefusesToReadOverABreak) {
  EXPECT_THAT(FirstChunk({{"a"}, {"b", 1, true}}, Demo()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("BREAK")));
}

TEST(EmptyChunkTest, IsTheEmptyPrompt) {
  EXPECT_EQ(EmptyChunk(Demo()).ids, Demo().EncodePadded("").ids);
  EXPECT_THAT(EmptyChunk(Demo()).weights, Each(1));
}

}  // namespace
}  // namespace latentd::prompts
