#include "core/pipeline/spec/fields.h"

#include <cmath>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "core/base/text/text.h"
#include "core/pipeline/spec/adapter_rules.h"
#include "core/pipeline/spec/field_defaults.h"
#include "core/pipeline/spec/mask_rules.h"
#include "core/pipeline/spec/models/components.h"
#include "core/pipeline/spec/request/limits.h"
#include "core/pipeline/spec/unused_parameters.h"
#include "core/pipeline/spec/validation.h"

namespace latentd::pipeline {
namespace {

using P = PictureSpec;
using Overrides = schedulers::Overrides;
using Ends = Range::Ends;

template <auto member>
Member At(P& spec) {
  return &(spec.*member);
}

template <auto member>
Member InScheduler(P& spec) {
  return &(spec.scheduler.*member);
}

// Rules of one field.

template <auto member>
void IsSide(const Field& field, const AskedSpec& asked, Violations& found) {
  const std::optional<int>& side = asked.spec.*member;
  const int multiple = asked.traits.side_multiple;
  if (!side || (*side >= kMinSide && *side <= kMaxSide && *side % multiple == 0)) return;
  found.Add(field.name, "must be a multiple of ", multiple, " from ", kMinSide, " to ", kMaxSide,
            ", is ", *side);
}

// Empty, or of as many entries as there may be steps, and `more`.
template <auto member, int more>
void IsSchedule(const Field& field, const AskedSpec& asked, Violations& found) {
  constexpr int kLeast = kMinSteps + more, kMost = kMaxSteps + more;
  const std::vector<double>& values = asked.spec.*member;
  const int count = static_cast<int>(values.size());
  if (count > kMost || (count > 0 && count < kLeast)) {
    found.Add(field.name, "must have ", kLeast, " to ", kMost, " entries, has ", count);
  }
  for (double value : values) {
    if (std::isfinite(value) && value >= 0) continue;
    return found.Add(field.name, "entries must be finite and not negative, one is ", value);
  }
}

void IsClipSkip(const Field& field, const AskedSpec& asked, Violations& found) {
  const ModelRow& model = asked.traits.models.FindOrFirst(asked.spec.model);
  found.CheckRange(field, {0, static_cast<double>(model.max_clip_skip)}, asked.spec);
}

// The least number skips none; a model whose states begin further back reads it as their first.
void IsClipSkipA1111(const Field& field, const AskedSpec& asked, Violations& found) {
  const ModelRow& model = asked.traits.models.FindOrFirst(asked.spec.model);
  const int most = model.defaults.clip_skip_a1111 + model.max_clip_skip;
  found.CheckRange(field, {1, static_cast<double>(most)}, asked.spec);
  if (asked.spec.clip_skip && asked.spec.clip_skip_a1111) {
    found.Add(field.name, "counts otherwise what clip_skip says: unset one");
  }
}

// Its syntax can be read.
template <auto member>
void IsPrompt(const Field& field, const AskedSpec& asked, Violations& found) {
  const std::optional<std::string> prompt = asked.spec.*member;
  if (!prompt) return;
  const absl::Status read = prompts::ParsePrompt(*prompt, asked.spec.prompt_syntax).status();
  if (!read.ok()) found.Add(field.name, read.message());
}

void IsInterval(const Field& field, const AskedSpec& asked, Violations& found) {
  if (!asked.spec.guidance_interval) return;
  const auto& [start, stop] = *asked.spec.guidance_interval;
  // Written so that NaN is out of range.
  if (start >= 0 && start < stop && stop <= 1) return;
  found.Add(field.name, "must be 0 <= start < stop <= 1, is start ", start, " and stop ", stop,
            "; what is not set is 0");
}

void CachesFeatures(const Field& field, const AskedSpec& asked, Violations& found) {
  if (asked.spec.feature_cache_interval.value_or(1) <= 1 || asked.traits.feature_cache) return;
  found.Add(field.name,
            "needs graphs that this server has with --feature-cache alone: start it with that, or "
            "leave the field out");
}

void IsAtLeastOne(const Field& field, const AskedSpec& asked, Violations& found) {
  const int every = asked.spec.previews_every.value_or(1);
  if (every < 1) found.Add(field.name, "must be at least 1, is ", every);
}

// 1 cuts nothing, as in diffusers, and so leaves nothing to a refiner.
void IsDenoisingEnd(const Field& field, const AskedSpec& asked, Violations& found) {
  found.CheckRange(field, {0, 1, asked.spec.refine ? Ends::kNone : Ends::kHigh}, asked.spec);
}

// Rules of several fields.

void CheckPixels(const Field&, const AskedSpec& asked, Violations& found) {
  const Size& own = asked.traits.models.FindOrFirst(asked.spec.model).default_size;
  const int64_t pixels =
      int64_t{asked.spec.width.value_or(own.width)} * asked.spec.height.value_or(own.height);
  if (pixels <= kMaxPixels) return;
  found.Add(asked.spec.width ? "width" : "height", "width x height must be at most ", kMaxPixels,
            " pixels, is ", pixels);
}

void CheckOneSchedule(const Field&, const AskedSpec& asked, Violations& found) {
  const int schedules = !asked.spec.timesteps.empty() + !asked.spec.sigmas.empty();
  if (schedules + asked.spec.num_inference_steps.has_value() <= 1) return;
  found.Add(schedules == 2 ? "sigmas" : "num_inference_steps",
            "only one of num_inference_steps, timesteps and sigmas may be set");
}

void CheckSeeds(const Field& field, const AskedSpec& asked, Violations& found) {
  const size_t seeds = asked.spec.seeds.size();
  if (seeds == 0) return;
  if (asked.spec.seed) found.Add(field.name, "must be empty when seed is set");
  const std::optional<int>& images = asked.spec.num_images_per_prompt;
  if (images && seeds != static_cast<size_t>(*images)) {
    found.Add(field.name, "must have one entry for each of ", *images, " images, has ", seeds);
  }
  if (seeds > static_cast<size_t>(kMaxImagesPerPrompt)) {
    found.Add(field.name, "must have at most ", kMaxImagesPerPrompt, " entries, has ", seeds);
  }
}

// `field` asks for what needs the component.
void CheckIsOn(absl::string_view field, const std::string& component, const Traits& traits,
               Violations& found) {
  if (!traits.off.contains(component)) return;
  found.Add(field, "needs the component ", component, ", which is off on this server");
}

void CheckDraws(absl::string_view field, const ModelRow& model, const Traits& traits,
                Violations& found) {
  CheckIsOn(field, FlagNameOf(kUnetName, model.name), traits, found);
}

// Nothing of a model is loaded whose UNet is off.
void CheckEncodes(absl::string_view field, const ModelRow& model, const Traits& traits,
                  Violations& found) {
  const std::string unet = FlagNameOf(kUnetName, model.name);
  if (!traits.off.contains(unet)) return;
  found.Add(field, "the text encoders of the model ", model.name,
            " are not loaded on this server: ", unet, " is off, and with it all of the model");
}

void AddNoModel(absl::string_view field, absl::string_view name, const Traits& traits,
                Violations& found) {
  const ModelRow& first = traits.models.first();
  if (name != "refiner") {
    found.Add(field, "there is no model ", Excerpt(name), "; there are ",
              ListSome(traits.models.Names(), kMaxModels));
  } else if (first.has_refiners) {
    found.Add(field, "this server has no refiner (start it with --refiner=DIR)");
  } else {
    found.Add(field, "this server has no refiner (models of the family ", first.family,
              " have none)");
  }
}

void CheckHandsOver(const ModelRow& model, const Traits& traits, Violations& found) {
  if (model.hands_over_to) {
    CheckDraws("refine", traits.models[*model.hands_over_to], traits, found);
  } else if (model.id != traits.models.first().id && !model.is_refiner) {
    found.Add("refine", "the model ", model.name, " hands over to no refiner");
  } else if (!model.is_refiner) {
    AddNoModel("refine", "refiner", traits, found);
  }
}

void CheckModels(const Field& field, const AskedSpec& asked, Violations& found) {
  const Traits& traits = asked.traits;
  const ModelRow* model = traits.models.Find(asked.spec.model);
  if (model == nullptr) {
    AddNoModel(field.name, asked.spec.model, traits, found);
  } else if (model->draws_videos) {
    found.Add(field.name, "the model ", model->name, " draws videos, and no pictures");
  } else {
    asked.spec.output_embeds ? CheckEncodes(field.name, *model, traits, found)
                             : CheckDraws(field.name, *model, traits, found);
    if (asked.spec.refine) CheckHandsOver(*model, traits, found);
  }
  if (asked.spec.has_image) CheckIsOn("image", "vae_encoder", traits, found);
}

void CheckMask(const AskedSpec& asked, const ModelRow* model, Violations& found) {
  const bool inpaints = model != nullptr && model->inpaints;
  if (asked.spec.has_mask && !asked.spec.has_image) {
    found.Add("mask_image", "says what of an image to draw over: set image too");
  } else if (inpaints && !asked.spec.has_mask) {
    found.Add("mask_image", "the ", model->name,
              " is an inpainting model, which draws into an image and nothing else: set image and "
              "mask_image");
  }
}

void CheckStages(const Field& field, const AskedSpec& asked, Violations& found) {
  if (asked.spec.output_embeds) return;  // any model's text encoders run by themselves
  const ModelRow* model = asked.traits.models.Find(asked.spec.model);
  const bool is_refiner = model != nullptr && model->is_refiner;
  CheckMask(asked, model, found);
  if (is_refiner && !asked.spec.has_image) {
    found.Add("image", "the refiner starts from an image: set image, or use the base with refine");
  }
  if (asked.spec.has_latents && asked.spec.has_image) {
    found.Add("latents",
              "are what text-to-image starts from, and have no effect on an image: unset one");
  }
  if (asked.spec.refine && (is_refiner || asked.spec.has_image)) {
    found.Add(field.name, "goes with text-to-image on the base only: unset image and model");
  }
}

// Steps of the spec, or those of its model; of the first one where there is no such model.
int StepsToRun(const AskedSpec& asked) {
  if (HasSteps(asked.spec)) return StepsOf(asked.spec);
  return asked.traits.models.FindOrFirst(asked.spec.model).defaults.steps;
}

void CheckFractions(const Field& field, const AskedSpec& asked, Violations& found) {
  const std::optional<double>&start = asked.spec.denoising_start, &end = asked.spec.denoising_end,
        &strength = asked.spec.strength;
  if (strength && !asked.spec.has_image) found.Add(field.name, "needs an image");
  if (start && !asked.spec.has_image) found.Add("denoising_start", "needs an image");
  if (strength && start) {
    found.Add(field.name, "must not be set together with denoising_start, which decides the same");
  }
  if (start && end && *start >= *end) {
    found.Add("denoising_start", "must be less than denoising_end");
  }
  // Diffusers' img2img runs int(steps * strength) steps.
  const int steps = StepsToRun(asked);
  // An adapter's preset may bring others, with which it is asked again.
  const bool are_known = HasSteps(asked.spec) || asked.spec.adapters.empty();
  if (are_known && strength && *strength > 0 && steps * *strength < 1) {
    found.Add(field.name, "leaves no step to run: ", steps, " steps x ", *strength,
              " is less than 1");
  }
}

// Reasons for which a field has no effect.

bool NoGuidance(const Uses& uses) { return !uses.guidance; }
bool NotStreamed(const Uses& uses) { return !uses.asked.takes_previews; }
bool GivesEmbeds(const Uses& uses) { return uses.asked.output_embeds.has_value(); }

// True if none of the models reads it.
template <bool ModelReads::*reads>
bool Unread(const Uses& uses) {
  return !uses.AnyModel(reads);
}

bool NoScores(const Uses& uses) { return !uses.AnyModel(&ModelReads::aesthetic_scores); }
bool OnlyScores(const Uses& uses) { return uses.EveryModel(&ModelReads::aesthetic_scores); }

bool SavesNothing(const Uses& uses) {
  const bool may_stop = uses.guidance && uses.resolved.guidance_stop == GuidanceStop::kAuto;
  return !may_stop && !uses.AnyModel(&ModelReads::cached_steps);
}

bool NoGuidedSteps(const Uses& uses) {
  return uses.guidance && !uses.AnyModel(&ModelReads::guided_steps);
}

bool ZerosForNegative(const Uses& uses) {
  return !uses.asked.negative_prompt && uses.EveryModel(&ModelReads::zeros_for_negative);
}

bool HasCrop(const Uses& uses) { return uses.resolved.padding_mask_crop.has_value(); }
bool NoPrompt(const Uses& uses) { return uses.resolved.has_prompt_embeds; }

// True if no text encoder runs, or for an empty negative prompt only.
bool NoPrompts(const Uses& uses) {
  const bool negative = uses.asked.negative_prompt || uses.asked.negative_prompt_2;
  return NoPrompt(uses) && !(uses.guidance && negative);
}

bool NoLayers(const Uses& uses) {
  return NoPrompts(uses) && (!uses.guidance || uses.resolved.has_negative_embeds ||
                             uses.EveryModel(&ModelReads::zeros_for_negative));
}

// As TimeIds in families/sdxl/sdxl.cc.
bool NoNegativeSizes(const Uses& uses) {
  return !uses.resolved.has_image && !uses.negative_sizes && NoScores(uses);
}

bool NoNegativeCrop(const Uses& uses) {
  return NoScores(uses) && (uses.resolved.has_image || !uses.negative_sizes);
}

bool IsOtherInterval(const Uses& uses) {
  return uses.asked.guidance_interval.value_or(GuidanceInterval()) != GuidanceInterval();
}

bool IsOtherPrompt(const Uses& uses) {
  const std::string prompt = uses.asked.prompt_2.value_or("");
  return !prompt.empty() && prompt != uses.asked.prompt;
}

bool IsOtherNegativePrompt(const Uses& uses) {
  return !uses.asked.negative_prompt_2.value_or("").empty() &&
         uses.asked.negative_prompt_2 != uses.asked.negative_prompt;
}

template <auto member>
bool IsOtherSize(const Uses& uses) {
  const Size own = {*uses.resolved.width, *uses.resolved.height};
  return (uses.asked.*member).value_or(own) != own;
}

bool IsOtherCrop(const Uses& uses) {
  return uses.asked.crops_coords_top_left.value_or(Offset()) != Offset();
}

constexpr Idle kNeedsGuidance = {NoGuidance, "it needs a guidance_scale above 1"};
constexpr Idle kNeedsNegativePrompt = {
    Unread<&ModelReads::negative_prompt>,
    "the model's network is told guidance_scale, and draws without a negative prompt"};
constexpr Idle kNeedsRefiner = {NoScores, "only a refiner reads it: set refine, or the model"};
constexpr Idle kNeedsBase = {Unread<&ModelReads::clip_skip>, "only the base reads it"};
constexpr absl::string_view kReadsEmbeds = "prompt_embeds stands in place of the prompt";
constexpr Idle kNeedsPrompt = {NoPrompt, kReadsEmbeds};
constexpr Idle kNeedsPrompts = {NoPrompts, kReadsEmbeds};
constexpr Idle kNeedsLayers = {NoLayers, kReadsEmbeds};
constexpr Idle kNeedsBothSizes = {
    NoNegativeSizes,
    "text-to-image reads it only where negative_original_size and negative_target_size are both "
    "set"};
constexpr Idle kNeedsNegativeCrop = {
    NoNegativeCrop, "only text-to-image with both negative sizes, and the refiner, read it"};
constexpr Idle kNeedsNegative = {
    ZerosForNegative, "this checkpoint takes zeros where negative_prompt is not set; set that too"};
constexpr absl::string_view kRefinerReadsScores = "the refiner reads aesthetic scores instead";
constexpr absl::string_view kOneTextEncoder =
    "the model has one text encoder, which reads the first prompt";
constexpr absl::string_view kNoSizes = "the model reads no sizes";
constexpr Idle kNeedsSizes = {Unread<&ModelReads::sizes>, kNoSizes};
constexpr Idle kKeptByCrop = {HasCrop, "padding_mask_crop puts the image back in any case"};

// A row as it is written below.
struct Row : Field {
  Row(absl::string_view name, Member (*member)(P&)) : Field{name, member} {}

  Row& In(const Range& values) { return range = values, *this; }
  Row& Neutral(double value) { return neutral = value, *this; }
  Row& Rules(decltype(rules) all) { return rules = std::move(all), *this; }
  Row& Default(decltype(fill) by) { return fill = by, *this; }
  Row& Unused(decltype(idle) reasons) { return idle = std::move(reasons), *this; }
  Row& Limits(const decltype(limits)& names) { return limits = names, *this; }
  Row& Own() { return is_own = true, *this; }
};

// Named like its member.
#define FIELD(name) Row(#name, At<&P::name>)
#define SCHEDULER_FIELD(name) Row(#name, InScheduler<&Overrides::name>)

constexpr Range kText = {0, kMaxPromptBytes};
constexpr Range kFraction = {0, 1};
constexpr Range kScore = {0, kMaxAestheticScore};
// The networks are told a number like any other: 0 and less are taken, as in diffusers.
constexpr Range kTold = {-kMaxConditioning, kMaxConditioning};

std::vector<Field> PromptAndSize() {
  const std::vector<absl::string_view> sides = {"min_side", "max_side", "side_multiple",
                                                "max_pixels"};
  const Idle one_text_encoder = {Unread<&ModelReads::second_prompts>, kOneTextEncoder,
                                 IsOtherPrompt};
  const Idle one_negative = {Unread<&ModelReads::second_prompts>, kOneTextEncoder,
                             IsOtherNegativePrompt};
  return {
      FIELD(prompt).In(kText).Rules({IsPrompt<&P::prompt>}).Own(),
      FIELD(prompt_2).In(kText).Rules({IsPrompt<&P::prompt_2>}).Unused({one_text_encoder}).Own(),
      FIELD(negative_prompt)
          .In(kText)
          .Rules({IsPrompt<&P::negative_prompt>})
          .Unused({kNeedsNegativePrompt, kNeedsGuidance}),
      FIELD(negative_prompt_2)
          .In(kText)
          .Rules({IsPrompt<&P::negative_prompt_2>})
          .Unused({kNeedsNegativePrompt, kNeedsGuidance, one_negative, kNeedsNegative}),
      FIELD(width).Rules({IsSide<&P::width>}).Default(FillWidth).Limits(sides),
      FIELD(height).Rules({IsSide<&P::height>, CheckPixels}).Default(FillHeight).Limits(sides),
      FIELD(prompt_syntax).Unused({kNeedsPrompts}),
      FIELD(long_prompt).Unused({kNeedsPrompts}),
      FIELD(adapters).Rules({AreAdapters}),
      FIELD(controls).Rules({AreControls}),
      FIELD(guess_mode).Rules({NeedsControls}).Own(),
      FIELD(ip_adapters).Rules({AreImagePrompts}),
      FIELD(bucket_policy),
  };
}

std::vector<Field> Denoising() {
  const std::vector<absl::string_view> steps = {"min_steps", "max_steps"};
  const Idle no_guided_steps = {NoGuidedSteps, "guidance_interval has none of the steps",
                                IsOtherInterval};
  return {
      FIELD(num_inference_steps).In({kMinSteps, kMaxSteps}).Default(FillSteps).Limits(steps),
      FIELD(guidance_scale)
          .In({0, kMaxGuidanceScale})
          .Default(FillGuidance)
          .Unused({no_guided_steps})
          .Limits({"max_guidance_scale"}),
      FIELD(guidance_rescale)
          .In(kFraction)
          .Neutral(0)
          .Default(FillNeutral)
          .Unused({kNeedsNegativePrompt, kNeedsGuidance}),
      FIELD(eta).In(kFraction).Neutral(0).Default(FillEta).Unused(
          {{Unread<&ModelReads::eta>, "only the schedulers ddim and tcd read it"}}),
      FIELD(clip_skip).Rules({IsClipSkip}).Neutral(0).Unused({kNeedsBase, kNeedsPrompt}),
      FIELD(clip_skip_a1111).Rules({IsClipSkipA1111}).Neutral(1).Unused({kNeedsBase, kNeedsLayers}),
      FIELD(timesteps).Rules({IsSchedule<&P::timesteps, 0>}).Limits(steps),
      FIELD(sigmas).Rules({IsSchedule<&P::sigmas, 1>, CheckOneSchedule}).Limits(steps),
      FIELD(guidance_interval)
          .Rules({IsInterval})
          .Default(FillNeutral)
          .Unused({kNeedsNegativePrompt, kNeedsGuidance}),
      FIELD(effort).Unused({{SavesNothing, "there is no guidance to stop, and no step to cache"}}),
      FIELD(guidance_stop).Default(FillGuidanceStop).Unused({kNeedsNegativePrompt, kNeedsGuidance}),
      FIELD(feature_cache_interval)
          .In({1, kMaxFeatureCacheInterval})
          .Neutral(1)
          .Rules({CachesFeatures})
          .Default(FillFeatureCache)
          .Unused({{GivesEmbeds, "embeddings are encoded without a step of the UNet"},
                   {Unread<&ModelReads::deep_features>,
                    "the UNet has one resolution, all of which each evaluation computes"},
                   {Unread<&ModelReads::cached_steps>,
                    "the first three tenths of the evaluations and the last two compute all of the "
                    "UNet, and so do the first of the refiner and those with more rows than the "
                    "one before (guidance_interval): no other is left"}})
          .Limits({"max_feature_cache_interval"}),
      Row("scheduler", InScheduler<&Overrides::name>),
      SCHEDULER_FIELD(timestep_spacing),
      SCHEDULER_FIELD(prediction_type),
      SCHEDULER_FIELD(algorithm_type),
      SCHEDULER_FIELD(use_karras_sigmas),
      SCHEDULER_FIELD(rescale_betas_zero_snr),
  };
}

std::vector<Field> ImagesAndConditioning() {
  const std::vector<absl::string_view> images = {"max_images_per_prompt"};
  const Idle only_scores = {OnlyScores, kRefinerReadsScores};
  const auto is_other_target = IsOtherSize<&P::target_size>;
  const Idle only_scores_for_size = {OnlyScores, kRefinerReadsScores, is_other_target};
  return {
      FIELD(num_images_per_prompt).In({1, kMaxImagesPerPrompt}).Limits(images).Own(),
      FIELD(seed).Own(),
      FIELD(seeds).Rules({CheckSeeds}).Limits(images).Own(),
      FIELD(batch_invariant),
      Row("previews.every_n_steps", At<&P::previews_every>)
          .Rules({IsAtLeastOne})
          .Unused(
              {{NotStreamed, "they come while a stream is read"},
               {Unread<&ModelReads::previews>,
                "the checkpoint has no vae_tiny, and the colours of its latents are not known"}})
          .Own(),
      FIELD(original_size)
          .In(kTold)
          .Default(FillSize)
          .Unused({{Unread<&ModelReads::sizes>, kNoSizes, IsOtherSize<&P::original_size>}}),
      FIELD(target_size)
          .In(kTold)
          .Default(FillSize)
          .Unused({{Unread<&ModelReads::sizes>, kNoSizes, is_other_target}, only_scores_for_size}),
      FIELD(crops_coords_top_left)
          .In(kTold)
          .Default(FillNeutral)
          .Unused({{Unread<&ModelReads::sizes>, kNoSizes, IsOtherCrop}}),
      FIELD(negative_original_size)
          .In(kTold)
          .Unused({kNeedsSizes, kNeedsNegativePrompt, kNeedsGuidance, kNeedsBothSizes}),
      FIELD(negative_target_size)
          .In(kTold)
          .Unused(
              {kNeedsSizes, kNeedsNegativePrompt, kNeedsGuidance, only_scores, kNeedsBothSizes}),
      FIELD(negative_crops_coords_top_left)
          .In(kTold)
          .Unused({kNeedsSizes, kNeedsNegativePrompt, kNeedsGuidance, kNeedsNegativeCrop}),
      FIELD(aesthetic_score).In(kScore).Neutral(6).Default(FillNeutral).Unused({kNeedsRefiner}),
      FIELD(negative_aesthetic_score)
          .In(kScore)
          .Neutral(2.5)
          .Default(FillNeutral)
          .Unused({kNeedsRefiner, kNeedsNegativePrompt, kNeedsGuidance}),
      FIELD(model).Rules({CheckModels}).Own(),
      FIELD(refine).Rules({CheckStages}),
      FIELD(denoising_end).Rules({IsDenoisingEnd}).Default(FillDenoisingEnd),
      FIELD(denoising_start).In({0, 1, Ends::kNone}).Own(),
      FIELD(strength).In({0, 1, Ends::kHigh}).Rules({CheckFractions}).Default(FillStrength),
      FIELD(mask_blur).In({0, kMaxMaskBlur}).Neutral(0).Rules({NeedsMask<false>}).Own(),
      FIELD(padding_mask_crop).In({0, kMaxMaskPadding}).Rules({NeedsMask<true>}).Own(),
      FIELD(preserve_unmasked).Rules({NeedsMask<true>}).Unused({kKeptByCrop}).Own(),
      FIELD(differential).Rules({NeedsMask<false>, CheckDifferential}).Own(),
  };
}

#undef FIELD
#undef SCHEDULER_FIELD

std::vector<Field> MakeFields() {
  std::vector<Field> all;
  for (const auto& part : {PromptAndSize(), Denoising(), ImagesAndConditioning()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace

const std::vector<Field>& Fields() {
  static const auto& fields = *new std::vector<Field>(MakeFields());
  return fields;
}

bool IsSet(const Field& field, const PictureSpec& spec) {
  return VisitField(field, spec, []<typename T>(const T& value) {
    if constexpr (requires { value.has_value(); }) {
      return value.has_value();
    } else {
      return value != T();
    }
  });
}

}  // namespace latentd::pipeline
