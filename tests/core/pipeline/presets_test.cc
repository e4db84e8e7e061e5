#include "core/pipeline/spec/presets.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/schedulers/config.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/temporary_directory.h"

namespace latentd::pipeline {
namespace {

using ::latentd::testing::IsOk;
using ::latentd::testing::kDemoBase;
using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

const Preset& Get(absl::string_view name, absl::string_view family = "sdxl") {
  return **FindPreset(name, family);
}

std::vector<std::string> MisuseOf(absl::string_view preset, int steps, double guidance_scale,
                                  bool is_trailing = true) {
  PictureSpec spec;
  spec.num_inference_steps = steps;
  spec.guidance_scale = guidance_scale;
  return FindMisuse(Get(preset), spec, {.is_trailing = is_trailing});
}

std::string Guess(absl::string_view path, absl::string_view family = "sdxl") {
  const Preset* guess = GuessPreset(path, family);
  return guess == nullptr ? "" : std::string(guess->name);
}

// The small picture with all that a preset decides left out.
PictureSpec Bare() {
  PictureSpec spec = SmallSpec();
  spec.num_inference_steps.reset();
  return spec;
}

TEST(PresetsTest, NoNameIsNoPreset) {
  EXPECT_EQ(*FindPreset("", "sdxl"), nullptr);
  EXPECT_EQ(*FindPreset("none", "sdxl"), nullptr);
}

TEST(PresetsTest, ANameThatThereIsNotListsThoseThatThereAre) {
  EXPECT_THAT(CheckPresetName("lightning-4"), IsOk());
  EXPECT_THAT(CheckPresetName("none"), IsOk());
  EXPECT_THAT(CheckPresetName("lightning"),
              StatusIs(kInvalid, AllOf(HasSubstr("lightning-4"), HasSubstr("noobai-v"))));
}

TEST(PresetsTest, OneOfAnotherFamilyIsRefusedWithThoseOfThisOne) {
  EXPECT_THAT(FindPreset("pony", "sd1"),
              StatusIs(kInvalid, AllOf(HasSubstr("pony"), HasSubstr("turbo, hyper-2"),
                                       HasSubstr("lcm"), Not(HasSubstr("lightning")))));
  EXPECT_THAT(FindPreset("turbo", "svd"), StatusIs(kInvalid, HasSubstr("there are none")));
}

TEST(PresetsTest, EverySettingIsOneThatASchedulerHas) {
  for (const std::string& name : PresetNames()) {
    for (const char* family : {"sdxl", "sd1"}) {
      const auto preset = FindPreset(name, family);
      if (!preset.ok()) continue;
      const auto file = schedulers::SchedulerFile::Parse(
          R"({"_class_name": "DPMSolverMultistepScheduler", "use_karras_sigmas": true})");
      const auto over = file->Over((*preset)->scheduler_config);
      ASSERT_THAT(over, IsOk()) << name;
      const auto config = over->With({});
      ASSERT_THAT(config, IsOk()) << name;
      EXPECT_THAT(config->unknown_fields, IsEmpty()) << name;
      EXPECT_FALSE((*preset)->needs_trailing && config->use_karras_sigmas) << name;
      EXPECT_EQ((*preset)->needs_trailing,
                config->timestep_spacing == schedulers::TimestepSpacing::kTrailing)
          << name;
    }
  }
}

TEST(PresetsTest, AFilesNameSpeaksOfOne) {
  EXPECT_EQ(Guess("/m/sdxl_lightning_4step.safetensors"), "lightning-4");
  EXPECT_EQ(Guess("/m/SDXL-Lightning-8step/"), "lightning-8");
  EXPECT_EQ(Guess("/m/Hyper-SDXL-1step-Unet.safetensors"), "hyper-1");
  EXPECT_EQ(Guess("sd_xl_turbo_1.0_fp16.safetensors"), "turbo");
  EXPECT_EQ(Guess("sd_turbo.safetensors", "sd1"), "turbo");
  EXPECT_EQ(Guess("ponyDiffusionV6XL.safetensors"), "pony");
  EXPECT_EQ(Guess("NoobAI-XL-Vpred-v1.0.safetensors"), "noobai-v");
  EXPECT_EQ(Guess("NoobAI-XL-v1.1.safetensors"), "noobai");
  EXPECT_EQ(Guess("noobaiXLNAIXL_epsilonPred.safetensors"), "noobai");
  EXPECT_EQ(Guess("koala-lightning-700m"), "koala-lightning");
  EXPECT_EQ(Guess("dmd2_sdxl_1step_unet_fp16.safetensors"), "dmd2-1");
  EXPECT_EQ(Guess("dmd2_sdxl_4step_unet_fp16.safetensors"), "dmd2");
}

TEST(PresetsTest, OtherNamesSpeakOfNone) {
  EXPECT_EQ(Guess("/turbo/stable-diffusion-xl-base-1.0"), "") << "the folder around it";
  EXPECT_EQ(Guess("lightning.safetensors"), "") << "there are several";
  EXPECT_EQ(Guess("lightning_18step.safetensors"), "");
  EXPECT_EQ(Guess("pony.safetensors", "sd1"), "") << "of another family";
  EXPECT_EQ(Guess(""), "");
}

TEST(PresetsTest, ValuesThatItIsNotMadeForAreSaid) {
  EXPECT_THAT(MisuseOf("lightning-4", 4, 0), IsEmpty());
  EXPECT_THAT(MisuseOf("lightning-4", 4, 1), IsEmpty());
  EXPECT_THAT(MisuseOf("lightning-4", 8, 0),
              ElementsAre(AllOf(HasSubstr("num_inference_steps 8"), HasSubstr("exactly 4"))));
  EXPECT_THAT(MisuseOf("lightning-4", 4, 7.5),
              ElementsAre(AllOf(HasSubstr("guidance_scale 7.5"), HasSubstr("at most 1"))));
  EXPECT_THAT(MisuseOf("lightning-4", 4, 0, /*is_trailing=*/false),
              ElementsAre(AllOf(HasSubstr("timestep_spacing"), HasSubstr("lightning-4"))));
  EXPECT_THAT(MisuseOf("turbo", 4, 0), IsEmpty());
  EXPECT_THAT(MisuseOf("turbo", 5, 0), ElementsAre(HasSubstr("at most 4")));
  EXPECT_THAT(MisuseOf("lcm", 4, 2, /*is_trailing=*/false), IsEmpty());
  EXPECT_THAT(MisuseOf("pony", 60, 12, /*is_trailing=*/false), IsEmpty());
}

TEST(PresetsTest, OneOfAnAdapterIsSaidToBeOfThat) {
  PictureSpec spec;
  spec.num_inference_steps = 9;
  spec.guidance_scale = 0;
  EXPECT_THAT(FindMisuse(Get("lightning-4"), spec, {.is_trailing = true, .made = "an adapter"}),
              ElementsAre(HasSubstr("not what an adapter of the preset lightning-4 is made for")));
}

TEST(PresetPipelineTest, RequestsThatSetNothingAreDrawnWithIt) {
  const Rig demo({.base = kDemoBase});
  const Rig rig({.base = kDemoBase, .preset = "lightning-4"});
  PictureSpec asked = Bare();
  asked.num_inference_steps = 4;
  asked.guidance_scale = 0;
  asked.scheduler = {.name = "euler", .timestep_spacing = "trailing"};
  EXPECT_EQ(rig.Latents(Bare()), demo.Latents(asked));
  EXPECT_NE(rig.Latents(Bare()), demo.Latents(Bare()));
  EXPECT_EQ(rig.pipeline->table().first().default_scheduler, "euler");
  EXPECT_THAT(rig.pipeline->Resolve(Bare()).value()->warnings, IsEmpty());
}

TEST(PresetPipelineTest, FieldsOfARequestCount) {
  const Rig demo({.base = kDemoBase});
  const Rig rig({.base = kDemoBase, .preset = "lightning-4"});
  PictureSpec asked = Bare();
  asked.num_inference_steps = 3;
  asked.guidance_scale = 4;
  asked.scheduler = {.name = "heun", .timestep_spacing = "linspace"};
  EXPECT_EQ(rig.Latents(asked), demo.Latents(asked));
  const std::vector<std::string> warnings = rig.pipeline->Resolve(asked).value()->warnings;
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("num_inference_steps 3"),
                                    HasSubstr("guidance_scale 4"), HasSubstr("timestep_spacing")));
}

// Settings that the preset does not speak of stay the checkpoint's.
TEST(PresetPipelineTest, AnotherSchedulerKeepsItsSpacing) {
  const Rig demo({.base = kDemoBase});
  const Rig rig({.base = kDemoBase, .preset = "hyper-8"});
  PictureSpec asked = Bare();
  asked.scheduler.name = "euler";
  PictureSpec spelled = asked;
  spelled.num_inference_steps = 8;
  spelled.guidance_scale = 0;
  spelled.scheduler.timestep_spacing = "trailing";
  EXPECT_EQ(rig.Latents(asked), demo.Latents(spelled));
}

TEST(PresetPipelineTest, TimestepsOfItsOwnAreThere) {
  const Rig demo({.base = kDemoBase});
  const Rig rig({.base = kDemoBase, .preset = "hyper-1"});
  PictureSpec asked = Bare();
  asked.timesteps = {800};
  asked.guidance_scale = 0;
  asked.scheduler.name = "lcm";
  EXPECT_EQ(rig.Latents(Bare()), demo.Latents(asked));
  const SharedPlan plan = rig.pipeline->Resolve(Bare()).value();
  asked = Bare();
  asked.num_inference_steps = 1;
  EXPECT_THAT(rig.pipeline->Resolve(asked).value()->warnings,
              ElementsAre(HasSubstr("timesteps 800")));
  asked = Bare();
  asked.scheduler.name = "dpmpp_2m";
  EXPECT_THAT(rig.pipeline->Resolve(asked).value()->spec.timesteps, IsEmpty());
  EXPECT_THAT(plan->spec.timesteps, ElementsAre(800));
  EXPECT_FALSE(plan->spec.num_inference_steps.has_value());
  EXPECT_THAT(plan->warnings, IsEmpty());
}

TEST(PresetPipelineTest, ImageToImageRunsOneStepAtLeast) {
  EXPECT_EQ(WithPreset({.strength = 0.3}, &Get("lightning-1"), /*is_told_guidance=*/false).strength,
            1);
  EXPECT_EQ(WithPreset({.strength = 0.3}, &Get("lightning-4"), /*is_told_guidance=*/false).strength,
            0.3);
}

TEST(WithPresetTest, FewStepsCacheNoFeatures) {
  const auto settings = [](absl::string_view name) {
    return WithPreset({}, &Get(name), /*is_told_guidance=*/false).of(Effort::kFast);
  };
  EXPECT_EQ(settings("pony"), (EffortSettings{GuidanceStop::kAuto, 3}));
  EXPECT_EQ(settings("hyper-12-cfg"), (EffortSettings{GuidanceStop::kAuto, 1}));
  EXPECT_EQ(settings("lightning-4"), (EffortSettings{GuidanceStop::kAuto, 1}));
}

TEST(PresetPipelineTest, AGridThatIsNotTrailingIsSaid) {
  const Rig rig({.base = kDemoBase, .preset = "lightning-4"});
  PictureSpec asked = Bare();
  asked.scheduler.name = "euler_karras";
  EXPECT_THAT(rig.pipeline->Resolve(asked).value()->warnings,
              ElementsAre(HasSubstr("timestep_spacing")));
  asked.scheduler.name = "euler_sgm_uniform";
  EXPECT_THAT(rig.pipeline->Resolve(asked).value()->warnings, IsEmpty());
}

TEST(PresetPipelineTest, ItsSizeIsTheDefault) {
  const Rig rig({.base = kDemoBase, .preset = "turbo"});
  EXPECT_EQ(rig.pipeline->table().first().default_size, (Size{512, 512}));
  const Rig tcd({.base = kDemoBase, .preset = "tcd"});
  EXPECT_NE(tcd.pipeline->table().first().default_size, (Size{512, 512}));
  EXPECT_EQ(tcd.pipeline->Resolve(Bare()).value()->spec.eta, 0.3);
  PictureSpec asked = Bare();
  asked.scheduler.name = "ddim";
  EXPECT_EQ(tcd.pipeline->Resolve(asked).value()->spec.eta, 0);
}

TEST(PresetPipelineTest, OneOfAnotherFamilyEndsTheStart) {
  Rig rig({.base = kDemoBase});
  EXPECT_THAT(LoadPipeline({.base = kDemoBase, .preset = "magic"}, rig.weights, rig.graphs),
              StatusIs(kInvalid, HasSubstr("no preset magic")));
}

TEST(PresetPipelineTest, AGuessIsToldAndNotTaken) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("sdxl_lightning_4step");
  testing::MakeEditedCheckpoint(path, kDemoBase, "scheduler/scheduler_config.json", "steps_offset",
                                "1");
  std::vector<std::string> warnings;
  LoadOptions options = {.base = path};
  options.warn = [&](absl::string_view warning) { warnings.emplace_back(warning); };
  const Rig guessed(options);
  EXPECT_THAT(warnings, Contains(AllOf(HasSubstr("--preset=lightning-4"), HasSubstr(path))));
  EXPECT_EQ(guessed.pipeline->Resolve(Bare()).value()->spec.num_inference_steps, 50);
  warnings.clear();
  options.preset = "none";
  const Rig told(options);
  EXPECT_THAT(warnings, Not(Contains(HasSubstr("--preset"))));
}

TEST(PresetPipelineTest, ZeroTerminalSnrThatNoStepHasIsSaid) {
  const Rig rig({.base = kDemoBase});
  PictureSpec asked = SmallSpec();
  asked.scheduler = {.prediction_type = "v_prediction", .rescale_betas_zero_snr = true};
  asked.scheduler.timestep_spacing = "leading";
  EXPECT_THAT(rig.pipeline->Resolve(asked).value()->warnings,
              ElementsAre(HasSubstr("rescale_betas_zero_snr")));
  for (const char* spacing : {"trailing", "linspace"}) {
    asked.scheduler.timestep_spacing = spacing;
    EXPECT_THAT(rig.pipeline->Resolve(asked).value()->warnings, IsEmpty());
  }
}

}  // namespace
}  // namespace latentd::pipeline
