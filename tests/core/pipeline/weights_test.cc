// Prompts with weights, beside whole images against diffusers (tests/golden).
#include <cmath>

#include "absl/algorithm/container.h"
#include "tests/core/pipeline/rig.h"

namespace latentd::pipeline {
namespace {

using ::latentd::testing::IsOk;
using ::latentd::testing::StatusIs;
using prompts::Syntax;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

PictureSpec With(Syntax syntax, const std::string& prompt) {
  PictureSpec spec = SmallSpec();
  spec.num_inference_steps = 2;
  spec.prompt_syntax = syntax;
  spec.prompt = prompt;
  return spec;
}

class WeightsTest : public ::testing::Test {
 protected:
  const Rig rig_;
};

TEST_F(WeightsTest, OfOneChangeNothing) {
  const std::vector<float> plain = rig_.Latents(With(Syntax::kNone, "a red circle"));
  EXPECT_EQ(rig_.Latents(With(Syntax::kA1111, "a (red:1) circle")), plain);
  EXPECT_EQ(rig_.Latents(With(Syntax::kComfyUi, "a (red:1.0) circle")), plain);
  EXPECT_EQ(rig_.Latents(With(Syntax::kCompel, "a (red)1 circle")), plain);
}

TEST_F(WeightsTest, AreThePromptsOwnInEachSyntax) {
  const std::vector<std::vector<float>> latents = {
      rig_.Latents(With(Syntax::kNone, "a red circle")),
      rig_.Latents(With(Syntax::kNone, "a (red:1.5) circle")),
      rig_.Latents(With(Syntax::kA1111, "a (red:1.5) circle")),
      rig_.Latents(With(Syntax::kComfyUi, "a (red:1.5) circle")),
      rig_.Latents(With(Syntax::kComfyUi, "a (red:2) circle"))};
  for (const std::vector<float>& one : latents) {
    EXPECT_EQ(std::count(latents.begin(), latents.end(), one), 1);
  }
  // Compel's rule is ComfyUI's from 1 on.
  EXPECT_EQ(rig_.Latents(With(Syntax::kCompel, "a (red)1.5 circle")), latents[3]);
}

TEST_F(WeightsTest, OfTheNegativePromptCount) {
  PictureSpec spec = With(Syntax::kA1111, "a red circle");
  spec.negative_prompt = "a star";
  const std::vector<float> plain = rig_.Latents(spec);
  spec.negative_prompt = "a (star:1.5)";
  EXPECT_NE(rig_.Latents(spec), plain);
}

TEST_F(WeightsTest, NameThePromptThatCannotBeRead) {
  PictureSpec spec = With(Syntax::kA1111, "a [red:blue:0.5] circle");
  spec.negative_prompt_2 = "a AND b";
  spec.guidance_scale = 100;
  EXPECT_THAT(
      rig_.Resolve(spec),
      StatusIs(kInvalidArgument,
               AllOf(HasSubstr("prompt: has \"[red:blue:0.5]\": it changes the prompt"),
                     HasSubstr("negative_prompt_2: has \"AND b\""), HasSubstr("guidance_scale"))));
  EXPECT_THAT(rig_.Resolve(With(Syntax::kA1111, "a BREAK b")),
              StatusIs(kInvalidArgument, HasSubstr("BREAK")));
  EXPECT_THAT(rig_.Resolve(With(Syntax::kNone, "a [red:blue:0.5] BREAK")), IsOk());
}

TEST_F(WeightsTest, NeedMemoryForTheStatesThatTheyMoveAwayFrom) {
  ASSERT_OK_AND_ASSIGN(const auto plain, rig_.Resolve(With(Syntax::kA1111, "a red circle")));
  ASSERT_OK_AND_ASSIGN(const auto weighted, rig_.Resolve(With(Syntax::kA1111, "a (red) circle")));
  EXPECT_FALSE(plain->has_weights());
  EXPECT_TRUE(weighted->has_weights());
  EXPECT_EQ(weighted->state_bytes - plain->state_bytes,
            2 * rig_.pipeline->first().graphs().text_bytes());
}

TEST_F(WeightsTest, OfCompelBelowOneLeadToThePromptWithoutThem) {
  const auto latents = [&](const std::string& prompt) {
    return rig_.Latents(With(Syntax::kCompel, prompt));
  };
  const std::vector<float> without = latents("a (red)0 circle");
  const auto distance = [&](const std::string& prompt) {
    const std::vector<float> other = latents(prompt);
    double sum = 0;
    for (size_t i = 0; i < other.size(); ++i) sum += std::abs(other[i] - without[i]);
    return sum;
  };
  const double near = distance("a (red)0.1 circle");
  EXPECT_GT(near, 0);
  EXPECT_GT(distance("a red circle"), near);
}

TEST_F(WeightsTest, OfCompelBelowOneRunMaskedEncodersThatOthersDoNotNeed) {
  ASSERT_OK_AND_ASSIGN(const auto plain, rig_.Resolve(With(Syntax::kCompel, "a red+ circle")));
  ASSERT_OK_AND_ASSIGN(const auto one, rig_.Resolve(With(Syntax::kCompel, "a red- circle")));
  ASSERT_OK_AND_ASSIGN(const auto two, rig_.Resolve(With(Syntax::kCompel, "a- red circle-")));
  const auto masked = [](const Plan& plan) {
    return absl::c_count_if(plan.graphs, [](const PlannedGraph& graph) {
      return graph.name.kind == GraphKind::kMaskedText;
    });
  };
  const int encoders = rig_.pipeline->first().graphs().text_count();
  EXPECT_EQ(masked(*plain), 0);
  EXPECT_EQ(masked(*one), encoders);
  EXPECT_EQ(plain->blends(), 0);
  EXPECT_EQ(one->blends(), encoders);
  EXPECT_EQ(two->blends(), 2 * encoders);
  EXPECT_EQ(plain->stages.front().text_times(), 1);
  EXPECT_EQ(one->stages.front().text_times(), 2);
  EXPECT_EQ(two->stages.front().text_times(), 3);
  EXPECT_GE(one->state_bytes - plain->state_bytes, rig_.pipeline->first().graphs().text_bytes());
  EXPECT_GT(two->state_bytes, one->state_bytes);
  EXPECT_EQ(rig_.Start(With(Syntax::kCompel, "a- red circle-"))->ahead().stages.front().text, 3);
}

TEST_F(WeightsTest, OfCompelBelowOneAreRefusedWhereTheyTakeTooManyRuns) {
  const auto prompt_of = [&](int64_t pieces) {
    std::string prompt;
    for (int64_t i = 0; i < pieces; ++i) prompt += "a- a ";
    return With(Syntax::kCompel, prompt);
  };
  const int64_t most = kMaxBlends / rig_.pipeline->first().graphs().text_count();
  PictureSpec spec = prompt_of(most);
  spec.long_prompt = prompts::LongPrompt::kChunk;
  ASSERT_OK_AND_ASSIGN(const auto plan, rig_.Resolve(spec));
  EXPECT_LE(plan->blends(), kMaxBlends);
  spec = prompt_of(most + 1);
  spec.long_prompt = prompts::LongPrompt::kChunk;
  EXPECT_THAT(
      GetFieldViolations(rig_.Resolve(spec).status()),
      ElementsAre(AllOf(Field(&FieldViolation::field, "prompt"),
                        Field(&FieldViolation::description, HasSubstr("weights below 1")))));
}

TEST(PromptBlendsTest, HaveGraphsAtEachBucketWhereTheyAreAskedFor) {
  const Rig without({.base = testing::kDemoBase});
  const Rig with({.base = testing::kDemoBase, .prompt_blends = true});
  ASSERT_OK_AND_ASSIGN(const auto few, without.pipeline->GraphsOf({}, {64, 72}, 2));
  ASSERT_OK_AND_ASSIGN(const auto more, with.pipeline->GraphsOf({}, {64, 72}, 2));
  EXPECT_EQ(more.size(), few.size() + 2);
}

TEST_F(WeightsTest, ThePlanCountsTokens) {
  ASSERT_OK_AND_ASSIGN(const auto plan, rig_.Resolve(With(Syntax::kA1111, "a ((red)) circle")));
  const auto& tokenizer = *rig_.pipeline->first().text_encoders().front().tokenizer;
  EXPECT_EQ(plan->prompt_tokens(), static_cast<int64_t>(tokenizer.Tokenize("a red circle").size()));
  EXPECT_EQ(plan->dropped_tokens(), 0);
}

TEST_F(WeightsTest, CountLayersAsA1111InBothPrompts) {
  PictureSpec spec = With(Syntax::kNone, "a red circle");
  spec.negative_prompt = "a star";
  const std::vector<float> plain = rig_.Latents(spec);
  spec.clip_skip = 1;
  const std::vector<float> of_prompt = rig_.Latents(spec);
  spec.clip_skip.reset();
  spec.clip_skip_a1111 = 2;
  EXPECT_EQ(rig_.Latents(spec), plain);
  spec.clip_skip_a1111 = 3;
  const std::vector<float> of_both = rig_.Latents(spec);
  EXPECT_NE(of_both, plain);
  EXPECT_NE(of_both, of_prompt);
  spec.clip_skip = 1;
  EXPECT_THAT(rig_.Resolve(spec),
              StatusIs(kInvalidArgument, HasSubstr("clip_skip_a1111: counts otherwise")));
}

}  // namespace
}  // namespace latentd::pipeline
