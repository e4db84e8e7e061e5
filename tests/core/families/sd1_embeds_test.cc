// Embeddings of Stable Diffusion 1, which has no pooled ones and encodes an empty negative prompt.
#include <cmath>
#include <string>

#include "core/backends/cpu/cpu_backend.h"
#include "tests/core/families/sd1_checkpoint.h"
#include "tests/core/pipeline/embedded.h"
#include "tests/support/temporary_directory.h"

namespace latentd::families {
namespace {

using ::latentd::testing::StatusIs;
using pipeline::Asked;
using pipeline::Embedded;
using pipeline::PictureSpec;
using pipeline::Rig;
using pipeline::SmallSpec;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

class Sd1EmbedsTest : public ::testing::Test {
 protected:
  Sd1EmbedsTest() {
    testing::MakeSd1Checkpoint(directory_.File("sd1"));
    testing::MakeLcmCheckpoint(directory_.File("lcm"));
  }
  Rig Load(const std::string& name) const {
    return Rig({.base = directory_.File(name)}, "", backends::cpu::CpuBackend::Create().value());
  }

  const testing::TemporaryDirectory directory_;
};

PictureSpec InTwoSteps() {
  PictureSpec spec = SmallSpec();
  spec.num_inference_steps = 2;
  return spec;
}

TEST_F(Sd1EmbedsTest, DrawThePictureOfTheirPrompts) {
  const Rig rig = Load("sd1");
  PictureSpec negative = InTwoSteps(), skipped = InTwoSteps();
  negative.negative_prompt = "blue";
  skipped.clip_skip = 1;
  for (const PictureSpec& spec : {InTwoSteps(), negative, skipped}) {
    const Asked embedded = Embedded(rig, spec);
    EXPECT_TRUE(embedded.inputs.negative.states.has_value());  // the empty prompt has some
    EXPECT_EQ(rig.Latents(embedded), rig.Latents(spec));
    Asked alone = embedded;
    alone.inputs.negative = {};
    alone.negative_prompt = spec.negative_prompt;
    EXPECT_EQ(rig.Latents(alone), rig.Latents(spec));
  }
}

// The mean of a normed state is its norm's bias: one that is about 0 says nothing, since means are
// divided by each other.
TEST_F(Sd1EmbedsTest, HaveTheMeansThatA1111RestoresInThem) {
  testing::MakeFilledCheckpoint(
      directory_.File("filled"), "text_encoder",
      {"text_model.final_layer_norm.weight", "text_model.final_layer_norm.bias"}, 1);
  testing::MakeSd1Checkpoint(directory_.File("sd1 filled"), directory_.File("filled"));
  const Rig rig = Load("sd1 filled");
  PictureSpec spec = InTwoSteps();
  spec.prompt = "a (red:4) circle";
  spec.prompt_syntax = prompts::Syntax::kA1111;
  EXPECT_THAT(rig.Latents(Embedded(rig, spec)), Pointwise(FloatNear(3e-3F), rig.Latents(spec)));
}

TEST_F(Sd1EmbedsTest, HaveNoPooledOnes) {
  const Rig rig = Load("sd1");
  Asked embedded = Embedded(rig, InTwoSteps());
  EXPECT_FALSE(embedded.inputs.prompt.pooled.has_value());
  embedded.inputs.prompt.pooled = embedded.inputs.prompt.states;
  EXPECT_THAT(rig.Resolve(embedded),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("pooled_prompt_embeds: the base reads no pooled embeddings")));
}

// It draws without a negative prompt, and encodes none.
TEST_F(Sd1EmbedsTest, OfAModelThatIsToldTheGuidanceAreThePromptsAlone) {
  const Rig rig = Load("lcm");
  const Asked embedded = Embedded(rig, InTwoSteps());
  EXPECT_FALSE(embedded.inputs.negative.given());
  EXPECT_EQ(rig.Latents(embedded), rig.Latents(InTwoSteps()));
}

}  // namespace
}  // namespace latentd::families
