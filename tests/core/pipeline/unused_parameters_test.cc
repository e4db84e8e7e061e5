// Warnings for unused parameters: a row a rule, and a case in which the same parameter has an
// effect.
#include "core/pipeline/spec/unused_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/pipeline/spec/validation.h"

namespace latentd::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr ModelReads kBase = {
    .clip_skip = true, .second_prompts = true, .zeros_for_negative = true};
constexpr ModelReads kDdim = {.clip_skip = true, .second_prompts = true, .eta = true};
constexpr ModelReads kRefiner = {.aesthetic_scores = true};
constexpr ModelReads kNotGuided = {.guided_steps = false};
const std::vector<ModelReads> kBoth = {kBase, kRefiner};
const ModelReads kOneResolution = [] {
  ModelReads reads = kBase;
  reads.deep_features = false;
  return reads;
}();
const ModelReads kCaches = [] {
  ModelReads reads = kBase;
  reads.cached_steps = true;
  return reads;
}();

using Change = std::function<void(PictureSpec&)>;

// Warnings for the changed request, with guidance unless the change sets another.
std::vector<std::string> Warnings(const Change& ask, const std::vector<ModelReads>& models) {
  PictureSpec asked;
  asked.prompt = "a star";
  ask(asked);
  const Size image_size = {64, 64};
  const PictureSpec resolved =
      WithDefaults(asked, {.models = ModelTable::FromFlags("base", "refiner")}, &image_size);
  return FindUnusedParameters(asked, resolved, models);
}

Change Unguided(const Change& ask) {
  return [ask](PictureSpec& spec) {
    spec.guidance_scale = 1.0;
    ask(spec);
  };
}

Change OnImage(const Change& ask) {
  return [ask](PictureSpec& spec) {
    spec.has_image = true;
    ask(spec);
  };
}

struct Case {
  const char* warning;
  Change ask;
  std::vector<ModelReads> models;
  // A case in which the same parameter has an effect.
  Change used_when;
  std::vector<ModelReads> used_by;
};

const Change kEta = [](PictureSpec& spec) { spec.eta = 0.5; };
const Change kRescale = [](PictureSpec& spec) { spec.guidance_rescale = 0.7; };
const Change kInterval = [](PictureSpec& s) { s.guidance_interval = GuidanceInterval{0, 0.5}; };
const Change kStop = [](PictureSpec& spec) { spec.guidance_stop = GuidanceStop::kAuto; };
const Change kCache = [](PictureSpec& spec) { spec.feature_cache_interval = 2; };
const Change kHigh = [](PictureSpec& spec) { spec.effort = Effort::kHigh; };
const Change kFast = [](PictureSpec& spec) { spec.effort = Effort::kFast; };
const Change kOnlyEncodes = [](PictureSpec& spec) {
  spec.output_embeds = HostTensor::Type::kFloat32;
};
const Change kClipSkip = [](PictureSpec& spec) { spec.clip_skip = 1; };
const Change kPrompt2 = [](PictureSpec& spec) { spec.prompt_2 = "a circle"; };
const Change kNegative = [](PictureSpec& spec) { spec.negative_prompt = "blue"; };
const Change kNegative2 = [](PictureSpec& spec) { spec.negative_prompt_2 = "blue"; };
const Change kBothNegatives = [](PictureSpec& spec) {
  spec.negative_prompt = "red";
  spec.negative_prompt_2 = "blue";
};
const Change kTarget = [](PictureSpec& spec) { spec.target_size = Size{128, 128}; };
const Change kNegativeOriginal = [](PictureSpec& s) { s.negative_original_size = Size{9, 9}; };
const Change kNegativeTarget = [](PictureSpec& s) { s.negative_target_size = Size{9, 9}; };
const Change kNegativeCrop = [](PictureSpec& s) { s.negative_crops_coords_top_left = Offset{}; };
const Change kEmbeds = [](PictureSpec& spec) { spec.has_prompt_embeds = true; };
const Change kSyntax = [](PictureSpec& s) { s.prompt_syntax = prompts::Syntax::kA1111; };
const Change kChunked = [](PictureSpec& s) { s.long_prompt = prompts::LongPrompt::kChunk; };
const Change kClipSkipA1111 = [](PictureSpec& spec) { spec.clip_skip_a1111 = 3; };
const Change kScore = [](PictureSpec& spec) { spec.aesthetic_score = 7.0; };
const Change kNegativeScore = [](PictureSpec& spec) { spec.negative_aesthetic_score = 1.0; };

Change And(const Change& one, const Change& other) {
  return [=](PictureSpec& spec) {
    one(spec);
    other(spec);
  };
}

const Change kBothNegativeSizes = And(kNegativeOriginal, kNegativeTarget);

const std::vector<Case> kCases = {
    {"eta has no effect: only the schedulers ddim", kEta, {kBase}, kEta, {kDdim}},
    {"guidance_rescale has no effect: it needs a guidance_scale above 1",
     Unguided(kRescale),
     {kBase},
     kRescale,
     {kBase}},
    {"guidance_interval has no effect: it needs a guidance_scale above 1",
     Unguided(kInterval),
     {kBase},
     kInterval,
     {kBase}},
    {"guidance_stop has no effect: it needs a guidance_scale above 1",
     Unguided(kStop),
     {kBase},
     kStop,
     {kBase}},
    {"effort has no effect: there is no guidance", Unguided(kHigh), {kBase}, kHigh, {kBase}},
    {"effort has no effect: there is no guidance",
     Unguided(kFast),
     {kBase},
     Unguided(kFast),
     {kCaches}},
    {"feature_cache_interval has no effect: the first three tenths of the evaluations and the last "
     "two compute all of the UNet",
     kCache,
     {kBase},
     kCache,
     {kCaches}},
    {"feature_cache_interval has no effect: embeddings are encoded without a step",
     And(kCache, kOnlyEncodes),
     {kBase},
     kCache,
     {kCaches}},
    {"feature_cache_interval has no effect: the UNet has one resolution",
     kCache,
     {kOneResolution},
     kCache,
     {kOneResolution, kCaches}},
    {"guidance_scale has no effect: guidance_interval has none of the steps",
     kInterval,
     {kNotGuided},
     kInterval,
     {kNotGuided, kRefiner}},
    {"clip_skip has no effect: only the base", OnImage(kClipSkip), {kRefiner}, kClipSkip, kBoth},
    {"prompt_2 has no effect: the model has one", kPrompt2, {kRefiner}, kPrompt2, kBoth},
    {"negative_prompt has no effect: it needs a guidance_scale",
     Unguided(kNegative),
     {kBase},
     kNegative,
     {kBase}},
    {"negative_prompt_2 has no effect: it needs a guidance_scale",
     Unguided(kNegative2),
     {kDdim},
     kBothNegatives,
     {kBase}},
    {"negative_prompt_2 has no effect: this checkpoint takes zeros",
     kNegative2,
     {kBase},
     kNegative2,
     {kDdim}},
    {"negative_prompt_2 has no effect: the model has one",
     kBothNegatives,
     {kRefiner},
     kBothNegatives,
     kBoth},
    {"target_size has no effect: the refiner reads aesthetic", kTarget, {kRefiner}, kTarget, kBoth},
    {"negative_original_size has no effect: it needs a guidance_scale",
     Unguided(OnImage(kNegativeOriginal)),
     {kBase},
     OnImage(kNegativeOriginal),
     {kBase}},
    {"negative_original_size has no effect: text-to-image reads it only where",
     kNegativeOriginal,
     {kBase},
     kNegativeOriginal,
     kBoth},
    {"negative_target_size has no effect: it needs a guidance_scale",
     Unguided(OnImage(kNegativeTarget)),
     {kBase},
     OnImage(kNegativeTarget),
     {kBase}},
    {"negative_target_size has no effect: text-to-image reads it only where",
     kNegativeTarget,
     {kBase},
     kBothNegativeSizes,
     {kBase}},
    {"negative_target_size has no effect: the refiner reads aesthetic",
     OnImage(kNegativeTarget),
     {kRefiner},
     OnImage(kNegativeTarget),
     {kBase}},
    {"negative_crops_coords_top_left has no effect: it needs a guidance_scale",
     Unguided(kNegativeCrop),
     {kRefiner},
     kNegativeCrop,
     {kRefiner}},
    {"negative_crops_coords_top_left has no effect: only text-to-image",
     OnImage(kNegativeCrop),
     {kBase},
     And(kBothNegativeSizes, kNegativeCrop),
     {kBase}},
    {"negative_crops_coords_top_left has no effect: only text-to-image",
     kNegativeCrop,
     {kBase},
     kNegativeCrop,
     kBoth},
    {"prompt_syntax has no effect: prompt_embeds",
     And(kEmbeds, kSyntax),
     {kBase},
     And(kEmbeds, And(kSyntax, kNegative)),
     {kBase}},
    {"long_prompt has no effect: prompt_embeds",
     And(kEmbeds, kChunked),
     {kBase},
     kChunked,
     {kBase}},
    {"clip_skip has no effect: prompt_embeds",
     And(kEmbeds, And(kClipSkip, kNegative)),
     {kBase},
     kClipSkip,
     {kBase}},
    {"clip_skip_a1111 has no effect: prompt_embeds",
     And(kEmbeds, kClipSkipA1111),
     {kBase},
     And(kEmbeds, kClipSkipA1111),
     {kDdim}},
    {"aesthetic_score has no effect: only a refiner", kScore, {kBase}, kScore, kBoth},
    {"negative_aesthetic_score has no effect: only a refiner",
     kNegativeScore,
     {kBase},
     kNegativeScore,
     kBoth},
    {"negative_aesthetic_score has no effect: it needs a guidance",
     Unguided(kNegativeScore),
     kBoth,
     kNegativeScore,
     {kRefiner}},
};

TEST(UnusedParametersTest, EachGivesOneWarningAndNoneWhereItHasAnEffect) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.warning);
    EXPECT_THAT(Warnings(c.ask, c.models), ElementsAre(HasSubstr(c.warning)));
    EXPECT_THAT(Warnings(c.used_when, c.used_by), IsEmpty());
  }
}

TEST(UnusedParametersTest, DefaultsGiveNone) {
  const auto defaults = [](PictureSpec& spec) {
    spec.guidance_scale = 1.0;
    spec.guidance_rescale = 0.0;
    spec.guidance_interval = GuidanceInterval{};
    spec.eta = 0.0;
    spec.clip_skip = 0;
    spec.negative_prompt = "";
    spec.negative_prompt_2 = "";
    spec.prompt_2 = spec.prompt;
    spec.target_size = Size{64, 64};
    spec.aesthetic_score = 6.0;
    spec.negative_aesthetic_score = 2.5;
  };
  EXPECT_THAT(Warnings(defaults, {kBase}), IsEmpty());
  EXPECT_THAT(Warnings(OnImage(defaults), {kRefiner}), IsEmpty());
}

TEST(UnusedParametersTest, NamesEachOfSeveral) {
  EXPECT_THAT(Warnings(Unguided(And(kBothNegatives, And(kEta, kScore))), {kBase}),
              ElementsAre(HasSubstr("negative_prompt "), HasSubstr("negative_prompt_2"),
                          HasSubstr("eta"), HasSubstr("aesthetic_score")));
}

}  // namespace
}  // namespace latentd::pipeline
