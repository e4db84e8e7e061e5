// Prompts of several chunks, beside whole images against diffusers (tests/golden).
#include "core/pipeline/lanes/step_lane.h"
#include "tests/core/pipeline/rig.h"

namespace latentd::pipeline {
namespace {

using ::latentd::testing::StatusIs;
using prompts::LongPrompt;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

PictureSpec Long(int words) {
  PictureSpec spec = SmallSpec();
  spec.num_inference_steps = 2;
  spec.long_prompt = LongPrompt::kChunk;
  spec.prompt = "a red circle";
  for (int i = 0; i < words; ++i) spec.prompt += " a";
  return spec;
}

class LongPromptTest : public ::testing::Test {
 protected:
  const Rig rig_;
};

TEST_F(LongPromptTest, OfOneChunkIsAsIfItWereTruncated) {
  PictureSpec truncated = Long(10);
  truncated.long_prompt = LongPrompt::kTruncate;
  EXPECT_EQ(rig_.Latents(Long(10)), rig_.Latents(truncated));
}

TEST_F(LongPromptTest, IsReadToItsEnd) {
  PictureSpec other = Long(100);
  other.prompt += " blue";
  const std::vector<float> latents = rig_.Latents(Long(100));
  EXPECT_NE(rig_.Latents(other), latents);
  PictureSpec truncated = Long(100);
  truncated.long_prompt = LongPrompt::kTruncate;
  PictureSpec other_truncated = other;
  other_truncated.long_prompt = LongPrompt::kTruncate;
  EXPECT_EQ(rig_.Latents(other_truncated), rig_.Latents(truncated));
  EXPECT_NE(rig_.Latents(truncated), latents);
}

TEST_F(LongPromptTest, HasItsOwnGraphsAndLane) {
  const auto one = rig_.Start(Long(1));
  const auto two = rig_.Start(Long(100));
  const auto also_two = rig_.Start(Long(120));
  EXPECT_EQ(one->plan().chunks(), 1);
  EXPECT_EQ(two->plan().chunks(), 2);
  EXPECT_NE(one->lane(), two->lane());
  EXPECT_EQ(two->lane(), also_two->lane());
  EXPECT_EQ(two->stage().request_part, also_two->stage().request_part);
  EXPECT_NE(two->stage().request_part, one->stage().request_part);
  for (const PlannedGraph& graph : two->plan().graphs) {
    const bool reads_prompts =
        graph.name.kind == GraphKind::kStep || graph.name.kind == GraphKind::kRequest;
    EXPECT_EQ(graph.name.shape.chunks, reads_prompts ? 2 : 1);
  }
}

TEST_F(LongPromptTest, IsFilledUpBesideALongerOne) {
  PictureSpec spec = Long(1);
  spec.negative_prompt = Long(100).prompt;
  ASSERT_OK_AND_ASSIGN(const auto plan, rig_.Resolve(spec));
  for (const families::RowInputs& row : plan->stages.front().prompts) {
    EXPECT_EQ(row.chunks, 2);
    for (const families::TextInputs& text : row.text) EXPECT_EQ(text.chunks.size(), 2u);
  }
  EXPECT_EQ(rig_.Latents(spec).size(), rig_.Latents(Long(1)).size());
}

TEST_F(LongPromptTest, GoesWithANegativePromptOfZeros) {
  PictureSpec spec = Long(100);
  ASSERT_OK_AND_ASSIGN(const auto plan, rig_.Resolve(spec));
  EXPECT_TRUE(plan->stages.front().prompts.front().text.empty());
  EXPECT_FALSE(rig_.Latents(spec).empty());
}

TEST_F(LongPromptTest, NeedsNoMoreMemoryThanItIsSaidTo) {
  const auto picture = rig_.Start(Long(100));
  const StepShape shape{2, 9, 8, 2};
  const ModelGraphs& graphs = rig_.pipeline->first().graphs();
  EXPECT_LE(
      StepLane::Bytes(StepPortsOf(picture->stage().steps.at(2)->info()), 2),
      StepLane::Bytes(graphs.StepPorts(int64_t{4} * shape.height * shape.width, {.chunks = 2}), 2));
}

TEST_F(LongPromptTest, OfMoreThanFourChunksIsCutAndSaysSo) {
  ASSERT_OK_AND_ASSIGN(const auto fits, rig_.Resolve(Long(297)));
  EXPECT_EQ(fits->chunks(), 4);
  EXPECT_EQ(fits->dropped_tokens(), 0);
  EXPECT_THAT(fits->warnings, Not(Contains(HasSubstr("chunks"))));
  ASSERT_OK_AND_ASSIGN(const auto cut, rig_.Resolve(Long(400)));
  EXPECT_EQ(cut->chunks(), 4);
  EXPECT_EQ(cut->prompt_tokens(), 403);
  EXPECT_EQ(cut->dropped_tokens(), 103);
  EXPECT_THAT(cut->warnings, Contains(HasSubstr("103 tokens behind them are not")));
}

TEST_F(LongPromptTest, HasTheWordBreakOnlyInChunks) {
  PictureSpec spec = Long(1);
  spec.prompt_syntax = prompts::Syntax::kA1111;
  spec.prompt = "a red circle BREAK a star";
  ASSERT_OK_AND_ASSIGN(const auto plan, rig_.Resolve(spec));
  EXPECT_EQ(plan->chunks(), 2);
  EXPECT_EQ(plan->prompt_tokens(), 5);
  spec.long_prompt = LongPrompt::kTruncate;
  EXPECT_THAT(rig_.Resolve(spec),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("set long_prompt to CHUNK")));
}

TEST(PromptChunksTest, HaveGraphsAtEachBucketWhereTheyAreAskedFor) {
  const Rig one({.base = testing::kDemoBase});
  const Rig two({.base = testing::kDemoBase, .prompt_chunks = 2});
  ASSERT_OK_AND_ASSIGN(const auto few, one.pipeline->GraphsOf({}, {64, 72}, 2));
  ASSERT_OK_AND_ASSIGN(const auto more, two.pipeline->GraphsOf({}, {64, 72}, 2));
  EXPECT_EQ(more.size(), few.size() + 2);
  EXPECT_GT(two.pipeline->StateBytes({64, 72}, 2), one.pipeline->StateBytes({64, 72}, 2));
}

}  // namespace
}  // namespace latentd::pipeline
