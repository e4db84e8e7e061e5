#include "core/prompts/chunks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/core/tokenizer/tokenizer_folder.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::prompts {
namespace {

using ::latentd::testing::StatusIs;
using ::nlohmann::json;
using ::testing::Each;
using ::testing::ElementsAre;
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
std::vector<int> CountsOf(const Chunks& chunks) {
  std::vector<int> counts;
  for (const Chunk& chunk : chunks.chunks) {
    EXPECT_EQ(chunk.ids.size(), 77u);
    EXPECT_EQ(chunk.weights.size(), 77u);
    EXPECT_EQ(chunk.ids.front(), Demo().start_id());
    const auto end = std::find(chunk.ids.begin(), chunk.ids.end(), Demo().end_id());
    counts.push_back(static_cast<int>(end - chunk.ids.begin()) - 1);
  }
  return counts;
}

std::vector<int> Cut(Syntax syntax, const Pieces& pieces) {
  const auto chunks = MakeChunks(pieces, syntax, LongPrompt::kChunk, Demo());
  EXPECT_OK(chunks);
  EXPECT_EQ(chunks->dropped, 0);
  const std::vector<int> counts = CountsOf(*chunks);
  EXPECT_EQ(chunks->tokens, std::accumulate(counts.begin(), counts.end(), int64_t{0}));
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

TEST(ChunksTest, AreFourAtMostBehindWhichTokensAreDropped) {
  EXPECT_EQ(Cut(Syntax::kA1111, {{Words(300)}}), (std::vector<int>{75, 75, 75, 75}));
  for (const Syntax syntax : {Syntax::kNone, Syntax::kA1111, Syntax::kComfyUi, Syntax::kCompel}) {
    const auto chunks = MakeChunks(Pieces{{Words(10000)}}, syntax, LongPrompt::kChunk, Demo());
    ASSERT_OK(chunks);
    EXPECT_THAT(chunks->chunks, SizeIs(4));
    EXPECT_EQ(chunks->tokens, 10000);
    EXPECT_EQ(chunks->dropped, 9700);
  }
}

// make_cuts.py has the rules, and calls Compel.
TEST(ChunksTest, AreThoseOfTheOriginals) {
  const std::map<std::string, Syntax> syntaxes = {{"none", Syntax::kNone},
                                                  {"a1111", Syntax::kA1111},
                                                  {"comfyui", Syntax::kComfyUi},
                                                  {"compel", Syntax::kCompel}};
  const json cases = json::parse(std::ifstream(
      ::latentd::testing::SourcePath("tests/core/prompts/cut_cases.json"), std::ios::binary));
  ASSERT_GT(cases.size(), 100u);
  for (const json& one : cases) {
    Pieces pieces;
    for (const json& piece : one["pieces"]) pieces.push_back({piece[0], piece[1], piece[2]});
    const auto chunks = MakeChunks(pieces, syntaxes.at(one["syntax"].get<std::string>()),
                                   LongPrompt::kChunk, Demo());
    ASSERT_OK(chunks);
    EXPECT_EQ(CountsOf(*chunks), one["chunks"].get<std::vector<int>>()) << one.dump();
    EXPECT_EQ(chunks->dropped, one["dropped"].get<int64_t>()) << one.dump();
  }
}

TEST(ChunksTest, OfATokenizerOfFewTokensEnd) {
  for (const int length : {2, 3, 5}) {
    tokenizer::TokenizerFolder folder("tokenizer_2");
    json config = json::parse(std::ifstream(folder.path() + "/tokenizer_config.json"));
    config["model_max_length"] = length;
    folder.Write("tokenizer_config.json", config.dump());
    const auto small = ClipTokenizer::Load(folder.path());
    ASSERT_OK(small);
    for (const Syntax syntax : {Syntax::kA1111, Syntax::kComfyUi, Syntax::kCompel}) {
      const auto chunks =
          MakeChunks(Pieces{{Words(3), 1}, {Words(40), 2}}, syntax, LongPrompt::kChunk, **small);
      ASSERT_OK(chunks);
      EXPECT_EQ(chunks->tokens, 43);
      EXPECT_EQ(chunks->dropped, 43 - static_cast<int64_t>(chunks->chunks.size()) * (length - 2));
      for (const Chunk& chunk : chunks->chunks) {
        EXPECT_THAT(chunk.ids, SizeIs(static_cast<size_t>(length)));
      }
    }
  }
}

// The tokens of a prompt with words that stand for tokens 1000 and on.
std::vector<int64_t> IdsOf(const std::string& text, std::vector<SpecialWord> words) {
  const auto chunks =
      MakeChunks(Pieces{{text}}, Syntax::kNone, LongPrompt::kTruncate, Demo(), words);
  EXPECT_OK(chunks);
  const std::vector<int64_t>& ids = chunks->chunks.front().ids;
  return {ids.begin() + 1, std::find(ids.begin(), ids.end(), Demo().end_id())};
}

TEST(SpecialWordsTest, StandForTheirTokensWhereTheyAreWhole) {
  const std::vector<SpecialWord> words = {{"star", {1000, 1001}}, {"star-b", {1002}}};
  const int64_t a = Demo().Tokenize("a").front();
  EXPECT_THAT(IdsOf("a star a", words), ElementsAre(a, 1000, 1001, a));
  EXPECT_THAT(IdsOf("a <star>a", words), ElementsAre(a, 1000, 1001, a));
  EXPECT_THAT(IdsOf("star,star", words),
              ElementsAre(1000, 1001, Demo().Tokenize(",").front(), 1000, 1001));
  EXPECT_THAT(IdsOf("star-b star", words), ElementsAre(1002, 1000, 1001));  // the longest
  for (const char* other :
       {"Star", "stars", "astar", "2star", "st ar", "\xc3\xa9star", "star\xc3\xa9"}) {
    EXPECT_EQ(IdsOf(other, words), Demo().Tokenize(other)) << other;
  }
  EXPECT_EQ(IdsOf("star <star", {}), Demo().Tokenize("star <star"));
}

TEST(SpecialWordsTest, TheirTokensCountAndHaveTheWeightOfTheirPiece) {
  const std::vector<SpecialWord> words = {{"star", std::vector<int64_t>(40, 1000)}};
  const auto chunks = MakeChunks(Pieces{{"star", 2}, {" star a", 1}}, Syntax::kA1111,
                                 LongPrompt::kTruncate, Demo(), words);
  ASSERT_OK(chunks);
  EXPECT_EQ(chunks->tokens, 81);
  EXPECT_EQ(chunks->dropped, 6);
  EXPECT_EQ(chunks->chunks.front().weights[40], 2);
  EXPECT_EQ(chunks->chunks.front().weights[41], 1);
}

TEST(SpecialWordsTest, ManyWordsInALongPromptTakeLittleTime) {
  std::vector<std::string> texts;
  for (int i = 0; i < 1000; ++i) texts.push_back(absl::StrCat("a", i));
  std::vector<SpecialWord> words;
  for (const std::string& text : texts) words.push_back({text, {1000}});
  std::string prompt;
  for (int i = 0; i < 10000; ++i) absl::StrAppend(&prompt, "a", i % 2000, " ");
  const auto chunks =
      MakeChunks(Pieces{{prompt}}, Syntax::kNone, LongPrompt::kTruncate, Demo(), words);
  ASSERT_OK(chunks);
  EXPECT_GT(chunks->tokens, 10000);
}

TEST(EmptyChunkTest, IsTheEmptyPrompt) {
  EXPECT_EQ(EmptyChunk(Demo()).ids, Demo().EncodePadded("").ids);
  EXPECT_THAT(EmptyChunk(Demo()).weights, Each(1));
}

}  // namespace
}  // namespace latentd::prompts
