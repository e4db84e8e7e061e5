#include "core/prompts/blends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/core/tokenizer/tokenizer_folder.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::prompts {
namespace {

using ::nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using tokenizer::ClipTokenizer;

const ClipTokenizer& DemoTokenizer() {
  static const ClipTokenizer& demo =
      *ClipTokenizer::Load(tokenizer::TokenizerFolder::Demo("tokenizer").string())
           .value()
           .release();
  return demo;
}

std::vector<std::vector<Blend>> BlendsIn(const std::vector<Piece>& pieces, LongPrompt long_prompt) {
  const auto chunks = MakeChunks(pieces, Syntax::kCompel, long_prompt, DemoTokenizer());
  EXPECT_OK(chunks);
  return BlendsOf(*chunks, long_prompt);
}

// The parts of the blends' states in the mean.
std::vector<double> PartsOf(const std::vector<Blend>& blends) {
  std::vector<double> parts;
  for (const Blend& blend : blends) {
    for (double& part : parts) part *= 1 - blend.share;
    parts.push_back(blend.share);
  }
  return parts;
}

TEST(BlendsTest, AreOfWeightsBelowOneAlone) {
  EXPECT_THAT(BlendsIn({{"a red ring"}}, LongPrompt::kTruncate), ElementsAre(IsEmpty()));
  EXPECT_THAT(BlendsIn({{"a", 1.5}, {"red ring", 1}}, LongPrompt::kTruncate),
              ElementsAre(IsEmpty()));
  // As much of the state without the piece as of the state with it.
  const auto blends = BlendsIn({{"a"}, {"red", 0.5}, {"ring", 1.5}}, LongPrompt::kTruncate);
  ASSERT_THAT(blends, ElementsAre(SizeIs(1)));
  EXPECT_EQ(blends[0][0].begin, 2u);
  EXPECT_EQ(blends[0][0].end, 3u);
  EXPECT_NEAR(blends[0][0].share, 0.5, 1e-9);
}

// make_blends.py calls Compel.
TEST(BlendsTest, AreThoseOfCompel) {
  const json cases = json::parse(std::ifstream(
      ::latentd::testing::SourcePath("tests/core/prompts/blend_cases.json"), std::ios::binary));
  ASSERT_GT(cases.size(), 50u);
  for (const json& one : cases) {
    SCOPED_TRACE(one.dump());
    std::vector<Piece> pieces;
    for (const json& piece : one["pieces"]) pieces.push_back({piece[0], piece[1]});
    const auto blends =
        BlendsIn(pieces, one["truncate"] ? LongPrompt::kTruncate : LongPrompt::kChunk);
    const json& chunks = one["chunks"];
    ASSERT_EQ(blends.size(), chunks.size());
    for (size_t i = 0; i < blends.size(); ++i) {
      ASSERT_EQ(blends[i].size(), chunks[i].size());
      const std::vector<double> parts = PartsOf(blends[i]);
      for (size_t k = 0; k < parts.size(); ++k) {
        EXPECT_EQ(blends[i][k].begin, chunks[i][k][0].get<size_t>());
        EXPECT_EQ(blends[i][k].end, chunks[i][k][1].get<size_t>());
        EXPECT_NEAR(parts[k], chunks[i][k][2].get<double>(), 1e-9);
      }
    }
  }
}

}  // namespace
}  // namespace latentd::prompts
