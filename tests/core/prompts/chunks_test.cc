#include "core/prompts/chunks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

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

using Pieces = std::vector<Piece>;

absl::StatusOr<Chunks> Truncated(const Pieces& pieces) {
  return MakeChunks(pieces, Syntax::kA1111, LongPrompt::kTruncate, Demo());
}

// Numbers of tokens in each chunk.
std::vector<int> Cut(Syntax syntax, const Pieces& pieces) {
  const auto chunks = MakeChunks(pieces, syntax, LongPrompt::kChunk, Demo());
  EXPECT_OK(chunks);
  std::vector<int> counts;
  int64_t tokens = 0;
  for (const Chunk& chunk : chunks->chunks) {
    EXPECT_EQ(chunk.ids.size(), 77u);
    EXPECT_EQ(chunk.weights.size(), 77u);
    EXPECT_EQ(chunk.ids.front(), Demo().start_id());
    const auto end = std::find(chunk.ids.begin(), chunk.ids.end(), Demo().end_id());
    counts.push_back(static_cast<int>(end - chunk.ids.begin()) - 1);
    tokens += counts.back();
  }
  EXPECT_EQ(chunks->tokens, tokens);
  EXPECT_EQ(chunks->dropped, 0);
  return counts;
}

TEST(TruncateTest, IsThePaddedPromptWhereThereAreNoWeights) {
  for (const std::string& text : {std::string(), std::string("a red circle"), Words(90)}) {
    const auto chunks = Truncated({{text}});
    ASSERT_OK(chunks);
    const tokenizer::Encoding padded = Demo().EncodePadded(text);
    ASSERT_THAT(chunks->chunks, SizeIs(1));
    EXPECT_EQ(chunks->chunks.front().ids, padded.ids);
    EXPECT_THAT(chunks->chunks.front().weights, Each(1));
    EXPECT_FALSE(chunks->chunks.front().has_weights());
    EXPECT_EQ(chunks->dropped, padded.dropped);
  }
}

TEST(TruncateTest, GivesEachTokenTheWeightOfItsPiece) {
  const auto chunks = Truncated({{"a ", 1}, {"red circle", 1.5}, {" a", 0.5}});
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

TEST(TruncateTest, CountsTheTokensThatItDrops) {
  const auto chunks = Truncated({{Words(70), 1}, {Words(10), 2}});
  ASSERT_OK(chunks);
  EXPECT_EQ(chunks->tokens, 80);
  EXPECT_EQ(chunks->dropped, 5);
  const Chunk& chunk = chunks->chunks.front();
  EXPECT_EQ(chunk.weights[75], 2);
  EXPECT_EQ(chunk.weights[76], 1);
  EXPECT_EQ(chunk.ids[76], Demo().end_id());
}

TEST(TruncateTest, RefusesToReadOverABreak) {
  EXPECT_THAT(Truncated({{"a"}, {"b", 1, true}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("BREAK")));
}

TEST(ChunksTest, OfA1111EndBehindACommaThatIsNear) {
  for (const Syntax syntax : {Syntax::kNone, Syntax::kA1111}) {
    EXPECT_EQ(Cut(syntax, {{""}}), (std::vector<int>{0}));
    EXPECT_EQ(Cut(syntax, {{Words(75)}}), (std::vector<int>{75}));
    EXPECT_EQ(Cut(syntax, {{Words(76)}}), (std::vector<int>{75, 1}));
    EXPECT_EQ(Cut(syntax, {{Words(160)}}), (std::vector<int>{75, 75, 10}));
    // The comma is number 70 of 100, and then 56 and 55: at most 20 before the 75th.
    EXPECT_EQ(Cut(syntax, {{Words(69) + ", " + Words(30)}}), (std::vector<int>{70, 30}));
    EXPECT_EQ(Cut(syntax, {{Words(55) + ", " + Words(44)}}), (std::vector<int>{56, 44}));
    EXPECT_EQ(Cut(syntax, {{Words(54) + ", " + Words(45)}}), (std::vector<int>{75, 25}));
    EXPECT_EQ(Cut(syntax, {{Words(75) + ", " + Words(4)}}), (std::vector<int>{75, 5}));
  }
}

TEST(ChunksTest, OfA1111BeginWhereABreakStands) {
  EXPECT_EQ(Cut(Syntax::kA1111, {{"a"}, {"a a", 1, true}}), (std::vector<int>{1, 2}));
  EXPECT_EQ(Cut(Syntax::kA1111, {{""}, {"", 1, true}, {"a", 1, true}}),
            (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(Cut(Syntax::kA1111, {{"a"}, {"", 1, true}}), (std::vector<int>{1}));
}

TEST(ChunksTest, OfComfyUiCutNoShortPiece) {
  EXPECT_EQ(Cut(Syntax::kComfyUi, {{Words(70)}, {Words(7), 2}}), (std::vector<int>{70, 7}));
  EXPECT_EQ(Cut(Syntax::kComfyUi, {{Words(70)}, {Words(8), 2}}), (std::vector<int>{75, 3}));
  EXPECT_EQ(Cut(Syntax::kComfyUi, {{Words(70)}, {Words(5), 2}}), (std::vector<int>{75}));
  EXPECT_EQ(Cut(Syntax::kComfyUi, {{Words(69) + ", " + Words(30)}}), (std::vector<int>{75, 25}));
}

TEST(ChunksTest, OfCompelEndBehindSentences) {
  EXPECT_EQ(Cut(Syntax::kCompel, {{Words(30) + ". " + Words(30) + ", " + Words(30)}}),
            (std::vector<int>{31, 61}));
  EXPECT_EQ(Cut(Syntax::kCompel, {{Words(30) + ", " + Words(10) + "; " + Words(50)}}),
            (std::vector<int>{42, 50}));
  EXPECT_EQ(Cut(Syntax::kCompel, {{Words(80)}}), (std::vector<int>{75, 5}));
  EXPECT_EQ(Cut(Syntax::kCompel, {{Words(30) + ". " + Words(44)}}), (std::vector<int>{75}));
  EXPECT_EQ(Cut(Syntax::kCompel, {{""}}), (std::vector<int>{0}));
}

TEST(ChunksTest, KeepTheWeightsOfTheirTokens) {
  const auto chunks = MakeChunks(Pieces{{Words(69) + ", a"}, {Words(20), 2}}, Syntax::kA1111,
                                 LongPrompt::kChunk, Demo());
  ASSERT_OK(chunks);
  ASSERT_THAT(chunks->chunks, SizeIs(2));
  EXPECT_FALSE(chunks->chunks[0].has_weights());
  EXPECT_EQ(chunks->chunks[1].weights[1], 1);
  EXPECT_EQ(chunks->chunks[1].weights[2], 2);
  EXPECT_EQ(chunks->chunks[1].weights[21], 2);
  EXPECT_EQ(chunks->chunks[1].weights[22], 1);
}

TEST(ChunksTest, AreFourAtMost) {
  EXPECT_EQ(Cut(Syntax::kA1111, {{Words(300)}}), (std::vector<int>{75, 75, 75, 75}));
  EXPECT_THAT(MakeChunks(Pieces{{Words(10000)}}, Syntax::kNone, LongPrompt::kChunk, Demo()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has 10000 tokens, which take 134 chunks of 75; at most 4")));
}

TEST(EmptyChunkTest, IsTheEmptyPrompt) {
  EXPECT_EQ(EmptyChunk(Demo()).ids, Demo().EncodePadded("").ids);
  EXPECT_THAT(EmptyChunk(Demo()).weights, Each(1));
}

}  // namespace
}  // namespace latentd::prompts
