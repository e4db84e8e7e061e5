#include "core/pipeline/spec/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/pipeline/spec/request/limits.h"

namespace latentd::pipeline {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Traits DemoTraits() {
  Traits traits = {.side_multiple = 8, .models = ModelTable::FromFlags("base", "refiner")};
  for (const int id : {0, 1}) {
    traits.models[{id}].default_size = {256, 256};
    traits.models[{id}].max_clip_skip = 2;
  }
  return traits;
}

std::vector<std::string> BadFields(const PictureSpec& spec, const Traits& traits = DemoTraits()) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : FindViolations(spec, traits)) {
    fields.push_back(violation.field);
  }
  return fields;
}

PictureSpec WithImage() {
  PictureSpec spec;
  spec.has_image = true;
  return spec;
}

TEST(FindViolationsTest, AMaskNeedsAnImage) {
  PictureSpec spec;
  spec.has_mask = true;
  EXPECT_THAT(BadFields(spec), ElementsAre("mask_image"));
  spec.has_image = true;
  EXPECT_THAT(BadFields(spec), IsEmpty());
}

TEST(FindViolationsTest, AnInpaintingModelNeedsAMask) {
  Traits traits = DemoTraits();
  traits.models[ModelId{0}].inpaints = true;
  EXPECT_THAT(BadFields({}, traits), ElementsAre("mask_image"));
  PictureSpec spec = WithImage();
  EXPECT_THAT(BadFields(spec, traits), ElementsAre("mask_image"));
  spec.has_mask = true;
  EXPECT_THAT(BadFields(spec, traits), IsEmpty());
}

TEST(FindViolationsTest, AcceptsASpecWithNothingSet) {
  EXPECT_THAT(BadFields(PictureSpec{}), IsEmpty());
}

TEST(FindViolationsTest, NamesEveryBadFieldAtOnce) {
  PictureSpec spec;
  spec.width = -8;
  spec.height = 100;
  spec.num_inference_steps = 0;
  spec.guidance_scale = kNaN;
  EXPECT_THAT(BadFields(spec),
              UnorderedElementsAre("width", "height", "num_inference_steps", "guidance_scale"));
}

TEST(FindViolationsTest, SaysWhatWouldBeRight) {
  PictureSpec spec;
  spec.num_inference_steps = 10000;
  const auto violations = FindViolations(spec, DemoTraits());
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_THAT(violations[0].description, HasSubstr("1 to 150"));
  EXPECT_THAT(violations[0].description, HasSubstr("10000"));
}

TEST(FindViolationsTest, RefusesPreviewsWithoutAStepBetween) {
  PictureSpec spec;
  spec.previews_every = 0;
  EXPECT_THAT(BadFields(spec), ElementsAre("previews.every_n_steps"));
  spec.previews_every = 1;
  EXPECT_THAT(BadFields(spec), IsEmpty());
}

class SideTest : public ::testing::TestWithParam<int> {};

TEST_P(SideTest, RefusesSidesThatAreNotMultiplesOfEightWithinTheLimits) {
  PictureSpec spec;
  spec.width = GetParam();
  EXPECT_THAT(BadFields(spec), Contains("width"));
}

INSTANTIATE_TEST_SUITE_P(Sides, SideTest,
                         ::testing::Values(0, -8, 56, 63, 65, 100, 2056, 1 << 30,
                                           std::numeric_limits<int>::max(),
                                           std::numeric_limits<int>::min()));

TEST(FindViolationsTest, RefusesMoreThanFourMegapixels) {
  PictureSpec spec;
  spec.width = spec.height = 2048;
  EXPECT_THAT(BadFields(spec), IsEmpty());  // exactly 4 Mi
  Traits coarse = DemoTraits();
  coarse.models[{0}].default_size = {4096, 2048};
  EXPECT_THAT(BadFields(PictureSpec{}, coarse), ElementsAre("height"));
}

TEST(FindViolationsTest, RefusesNumbersThatAreNotFinite) {
  PictureSpec spec;
  spec.guidance_rescale = kNaN;
  spec.eta = std::numeric_limits<double>::infinity();
  spec.sigmas = {1.0, kNaN};
  EXPECT_THAT(BadFields(spec), UnorderedElementsAre("guidance_rescale", "eta", "sigmas"));
}

TEST(FindViolationsTest, AGuidanceIntervalGoesUpFrom0To1) {
  PictureSpec spec;
  for (const GuidanceInterval& good : {GuidanceInterval{0, 1}, {0.5, 1}, {0, 0.001}}) {
    spec.guidance_interval = good;
    EXPECT_THAT(BadFields(spec), IsEmpty());
  }
  for (const GuidanceInterval& bad : {GuidanceInterval{0.5, 0.5},
                                      {0.6, 0.5},
                                      {-0.1, 1},
                                      {0, 1.1},
                                      {kNaN, 1},
                                      {0, kNaN},
                                      {0.5, 0}}) {
    spec.guidance_interval = bad;
    EXPECT_THAT(BadFields(spec), ElementsAre("guidance_interval"));
  }
  EXPECT_THAT(FindViolations(spec, DemoTraits())[0].description,
              HasSubstr("0 <= start < stop <= 1, is start 0.5 and stop 0"));
}

TEST(FindViolationsTest, RefusesAPromptOfAMegabyte) {
  PictureSpec spec;
  spec.prompt = std::string(kMaxPromptBytes, 'a');
  EXPECT_THAT(BadFields(spec), IsEmpty());
  spec.prompt = std::string(1 << 20, 'a');
  spec.negative_prompt_2 = std::string(kMaxPromptBytes + 1, 'a');
  EXPECT_THAT(BadFields(spec), ElementsAre("prompt", "negative_prompt_2"));
}

TEST(FindViolationsTest, RefusesLatentsTogetherWithAnImage) {
  PictureSpec spec = WithImage();
  spec.has_latents = true;
  EXPECT_THAT(BadFields(spec), ElementsAre("latents"));
  spec.has_image = false;
  EXPECT_THAT(BadFields(spec), IsEmpty());
}

TEST(FindViolationsTest, RefusesStrengthTogetherWithDenoisingStart) {
  PictureSpec spec = WithImage();
  spec.strength = 0.5;
  spec.denoising_start = 0.5;
  EXPECT_THAT(BadFields(spec), ElementsAre("strength"));
}

TEST(FindViolationsTest, RefusesStrengthThatLeavesNoStep) {
  PictureSpec spec = WithImage();
  spec.num_inference_steps = 4;
  spec.strength = 0.2;
  EXPECT_THAT(BadFields(spec), ElementsAre("strength"));
}

TEST(FindViolationsTest, RefusesAStrengthOfNothing) {
  PictureSpec spec = WithImage();
  spec.strength = 0;
  EXPECT_THAT(BadFields(spec), ElementsAre("strength"));
}

TEST(FindViolationsTest, TakesADenoisingEndOf1ButNotWithARefiner) {
  PictureSpec spec;
  spec.denoising_end = 1;
  EXPECT_THAT(BadFields(spec), ElementsAre());
  spec.refine = true;
  EXPECT_THAT(BadFields(spec), ElementsAre("denoising_end"));
  spec.refine = false;
  for (const double end : {0.0, -0.5, 1.001, 2.0, kNaN}) {
    spec.denoising_end = end;
    EXPECT_THAT(BadFields(spec), ElementsAre("denoising_end")) << end;
  }
}

std::string DescriptionOf(const PictureSpec& spec) {
  const auto violations = FindViolations(spec, DemoTraits());
  return violations.empty() ? "" : violations.front().description;
}

// A message has the limits that are really kept.
TEST(FindViolationsTest, SaysWhichFractionsAreTaken) {
  PictureSpec spec;
  spec.denoising_end = 1.5;
  EXPECT_EQ(DescriptionOf(spec), "must be greater than 0 and at most 1, is 1.5");
  spec.refine = true;
  EXPECT_EQ(DescriptionOf(spec), "must be greater than 0 and less than 1, is 1.5");
  spec = WithImage();
  spec.denoising_start = 1;
  EXPECT_EQ(DescriptionOf(spec), "must be greater than 0 and less than 1, is 1");
  spec = WithImage();
  spec.strength = 0;
  EXPECT_EQ(DescriptionOf(spec), "must be greater than 0 and at most 1, is 0");
  spec.strength = 1;
  EXPECT_EQ(DescriptionOf(spec), "");
}

TEST(FindViolationsTest, SaysHowManySigmasAndTimestepsAreTaken) {
  PictureSpec spec;
  spec.sigmas = {1};
  EXPECT_EQ(DescriptionOf(spec), "must have 2 to 151 entries, has 1");
  spec.sigmas.assign(152, 1);
  EXPECT_EQ(DescriptionOf(spec), "must have 2 to 151 entries, has 152");
  spec.sigmas.clear();
  spec.timesteps.assign(151, 1);
  EXPECT_EQ(DescriptionOf(spec), "must have 1 to 150 entries, has 151");
  spec.timesteps = {1};
  EXPECT_EQ(DescriptionOf(spec), "");
}

// To the networks they are numbers: diffusers takes any.
TEST(FindViolationsTest, TakesMicroConditioningOfNothingAndLess) {
  PictureSpec spec;
  spec.original_size = {0, 0};
  spec.target_size = {0, -16};
  spec.crops_coords_top_left = {-8, 0};
  spec.negative_original_size = {-1, 65536};
  spec.negative_target_size = {0, 64};
  spec.negative_crops_coords_top_left = {-65536, 65536};
  EXPECT_THAT(BadFields(spec), IsEmpty());
  spec.original_size = {65537, 0};
  spec.crops_coords_top_left = {0, -65537};
  EXPECT_THAT(BadFields(spec), ElementsAre("original_size", "crops_coords_top_left"));
  EXPECT_EQ(DescriptionOf(spec), "each side must be -65536 to 65536, is 65537x0");
}

// Sigmas are one more than steps.
TEST(FindViolationsTest, CountsTheStepsOfSigmasAsDiffusersDoes) {
  PictureSpec spec = WithImage();
  spec.sigmas = {10, 5, 1, 0};
  EXPECT_EQ(StepsOf(spec), 3);
  spec.strength = 0.3;  // 0 of 3 steps; it would be 1 of 4
  EXPECT_THAT(BadFields(spec), ElementsAre("strength"));
  spec.strength = 0.34;
  EXPECT_THAT(BadFields(spec), ElementsAre());
}

TEST(FindViolationsTest, TakesAsManySigmasAsMakeTheMostSteps) {
  PictureSpec spec;
  for (int i = 150; i >= 0; --i) spec.sigmas.push_back(i);
  EXPECT_THAT(BadFields(spec), ElementsAre());
  spec.sigmas.insert(spec.sigmas.begin(), 151);
  EXPECT_THAT(BadFields(spec), ElementsAre("sigmas"));
  spec.sigmas.clear();
  for (int i = 149; i >= 0; --i) spec.timesteps.push_back(i);
  EXPECT_THAT(BadFields(spec), ElementsAre());
  spec.timesteps.insert(spec.timesteps.begin(), 150);
  EXPECT_THAT(BadFields(spec), ElementsAre("timesteps"));
}

TEST(FindViolationsTest, RefusesWhatNeedsAnImageWithoutOne) {
  PictureSpec spec;
  spec.strength = 0.5;
  spec.model = "refiner";
  EXPECT_THAT(BadFields(spec), UnorderedElementsAre("strength", "image"));
}

TEST(FindViolationsTest, RefusesToRefineWithoutARefiner) {
  Traits traits = DemoTraits();
  traits.models = ModelTable::FromFlags("base", "");
  PictureSpec spec;
  spec.refine = true;
  EXPECT_THAT(BadFields(spec, traits), ElementsAre("refine"));
}

TEST(FindViolationsTest, RefusesTwoSchedulesAtOnce) {
  PictureSpec spec;
  spec.num_inference_steps = 2;
  spec.timesteps = {999, 500};
  EXPECT_THAT(BadFields(spec), ElementsAre("num_inference_steps"));
}

TEST(FindViolationsTest, RefusesSeedTogetherWithSeeds) {
  PictureSpec spec;
  spec.seed = 1;
  spec.seeds = {2};
  EXPECT_THAT(BadFields(spec), ElementsAre("seeds"));
}

TEST(FindViolationsTest, RefusesSeedsThatDoNotFitTheNumberOfImages) {
  PictureSpec spec;
  spec.num_images_per_prompt = 3;
  spec.seeds = {1, 2};
  EXPECT_THAT(BadFields(spec), ElementsAre("seeds"));
}

TEST(WithDefaultsTest, TakesDiffusersDefaults) {
  const PictureSpec spec = WithDefaults(PictureSpec{}, DemoTraits(), nullptr);
  EXPECT_EQ(spec.num_inference_steps, 50);
  EXPECT_EQ(spec.guidance_scale, 5.0);
  EXPECT_EQ(spec.width, 256);
  EXPECT_EQ(spec.original_size, (Size{256, 256}));
  EXPECT_EQ(spec.strength, std::nullopt);
  EXPECT_EQ(spec.seeds.size(), 1u);
}

TEST(WithDefaultsTest, AnEffortSetsWhatTheRequestDoesNot) {
  const auto settings = [](const PictureSpec& spec) {
    const PictureSpec resolved = WithDefaults(spec, DemoTraits(), nullptr);
    return std::pair(resolved.guidance_stop, resolved.feature_cache_interval);
  };
  using Settings = std::pair<std::optional<GuidanceStop>, std::optional<int>>;
  EXPECT_EQ(settings({}), Settings());
  EXPECT_EQ(settings({.effort = Effort::kFull}), Settings(GuidanceStop::kNever, 1));
  EXPECT_EQ(settings({.effort = Effort::kHigh}), Settings(GuidanceStop::kAuto, 1));
  EXPECT_EQ(settings({.effort = Effort::kFast}), Settings(GuidanceStop::kAuto, 3));
  PictureSpec own{.effort = Effort::kFast, .feature_cache_interval = 5};
  EXPECT_EQ(settings(own), Settings(GuidanceStop::kAuto, 5));
  own.guidance_stop = GuidanceStop::kNever;
  own.feature_cache_interval = 1;
  EXPECT_EQ(settings(own), Settings(GuidanceStop::kNever, 1));
  own = {.effort = Effort::kFull, .guidance_stop = GuidanceStop::kAuto};
  EXPECT_EQ(settings(own), Settings(GuidanceStop::kAuto, 1));
}

TEST(WithDefaultsTest, CountsSeedsUpFromTheFirst) {
  PictureSpec spec;
  spec.seed = std::numeric_limits<uint64_t>::max();
  spec.num_images_per_prompt = 2;
  EXPECT_THAT(WithDefaults(spec, DemoTraits(), nullptr).seeds,
              ElementsAre(std::numeric_limits<uint64_t>::max(), 0));
}

TEST(WithDefaultsTest, KeepsTheInitImagesSizeCutToMultiplesOfEight) {
  const Size size{123, 77};
  const PictureSpec spec = WithDefaults(WithImage(), DemoTraits(), &size);
  EXPECT_EQ(spec.width, 120);
  EXPECT_EQ(spec.height, 72);
  EXPECT_EQ(spec.strength, 0.3);
}

TEST(WithDefaultsTest, IsValidWhenSentAgain) {
  PictureSpec spec;
  spec.refine = true;
  spec.seed = 7;
  EXPECT_THAT(BadFields(WithDefaults(spec, DemoTraits(), nullptr)), IsEmpty());
}

}  // namespace
}  // namespace latentd::pipeline
