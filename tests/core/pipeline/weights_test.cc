// Prompts with weights, beside whole images against diffusers (tests/golden).
#include "tests/core/pipeline/rig.h"

namespace latentd::pipeline {
namespace {

using ::latentd::testing::IsOk;
using ::latentd::testing::StatusIs;
using prompts::Syntax;
using ::testing::AllOf;
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
  EXPECT_THAT(rig_.Resolve(With(Syntax::kCompel, "a red- circle")),
              StatusIs(kInvalidArgument, HasSubstr("has \"red\" with the weight 0.9")));
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
