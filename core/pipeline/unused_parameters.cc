#include "core/pipeline/unused_parameters.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/pipeline/conditioning.h"
#include "core/pipeline/limits.h"

namespace latentd::pipeline {
namespace {

struct Facts {
  const PictureSpec& asked;
  const PictureSpec& resolved;
  absl::Span<const ModelReads> models;
  bool guidance;
  bool negative_sizes;  // both are given: text-to-image looks at neither alone

  bool AnyModel(bool ModelReads::*reads) const {
    return std::any_of(models.begin(), models.end(),
                       [&](const ModelReads& model) { return model.*reads; });
  }
  bool EveryModel(bool ModelReads::*reads) const {
    return std::all_of(models.begin(), models.end(),
                       [&](const ModelReads& model) { return model.*reads; });
  }
};

// The first rule that applies to a parameter is the one that is said.
struct Rule {
  const char* parameter;
  bool (*asked)(const PictureSpec& asked, const PictureSpec& resolved);
  bool (*unused)(const Facts& facts);
  const char* why;
};

bool HasText(const std::optional<std::string>& text) { return !text.value_or("").empty(); }

template <auto field>
bool IsSet(const PictureSpec& asked, const PictureSpec&) {
  return (asked.*field).has_value();
}

template <auto field>
bool IsText(const PictureSpec& asked, const PictureSpec&) {
  return HasText(asked.*field);
}

template <auto field>
bool IsPositive(const PictureSpec& asked, const PictureSpec&) {
  return (asked.*field).value_or(0) > 0;
}

bool IsOtherScore(const PictureSpec& asked, const PictureSpec&) {
  return asked.aesthetic_score.value_or(kDefaultAestheticScore) != kDefaultAestheticScore;
}

bool IsOtherNegativeScore(const PictureSpec& asked, const PictureSpec&) {
  return asked.negative_aesthetic_score.value_or(kDefaultNegativeAestheticScore) !=
         kDefaultNegativeAestheticScore;
}

bool IsOtherPrompt(const PictureSpec& asked, const PictureSpec&) {
  return HasText(asked.prompt_2) && *asked.prompt_2 != asked.prompt;
}

bool IsOtherNegativePrompt(const PictureSpec& asked, const PictureSpec&) {
  return HasText(asked.negative_prompt_2) && asked.negative_prompt_2 != asked.negative_prompt;
}

bool IsOtherInterval(const PictureSpec& asked, const PictureSpec&) {
  return asked.guidance_interval.value_or(GuidanceInterval()) != GuidanceInterval();
}

bool IsOtherTargetSize(const PictureSpec& asked, const PictureSpec& resolved) {
  return asked.target_size && *asked.target_size != Size{*resolved.width, *resolved.height};
}

bool NoGuidance(const Facts& facts) { return !facts.guidance; }

bool NoGuidedSteps(const Facts& facts) {
  return facts.guidance && !facts.AnyModel(&ModelReads::guided_steps);
}

bool NoSecondPrompts(const Facts& facts) { return !facts.AnyModel(&ModelReads::second_prompts); }

bool ZerosForNegative(const Facts& facts) {
  return !facts.asked.negative_prompt && facts.EveryModel(&ModelReads::zeros_for_negative);
}

bool NoAestheticScores(const Facts& facts) {
  return !facts.AnyModel(&ModelReads::aesthetic_scores);
}

bool OnlyAestheticScores(const Facts& facts) {
  return facts.EveryModel(&ModelReads::aesthetic_scores);
}

// As TimeIds in conditioning.cc.
bool NoNegativeSizes(const Facts& facts) {
  return !facts.resolved.has_image && !facts.negative_sizes && NoAestheticScores(facts);
}

bool NoNegativeCrop(const Facts& facts) {
  return NoAestheticScores(facts) && (facts.resolved.has_image || !facts.negative_sizes);
}

constexpr char kNeedsGuidance[] = "it needs a guidance_scale above 1";
constexpr char kNeedsBothSizes[] =
    "text-to-image reads it only where negative_original_size and negative_target_size are both "
    "set";
constexpr char kRefinerReadsScores[] = "the refiner reads aesthetic scores instead";
constexpr char kNeedsRefiner[] = "only the refiner reads it: set refine, or the model";
constexpr char kOneTextEncoder[] = "the refiner has one text encoder, which reads the first prompt";

using P = PictureSpec;
constexpr Rule kRules[] = {
    {"eta", IsPositive<&P::eta>,
     [](const Facts& facts) { return !facts.AnyModel(&ModelReads::eta); },
     "only the scheduler ddim reads it"},
    {"guidance_scale", IsOtherInterval, NoGuidedSteps, "guidance_interval has none of the steps"},
    {"guidance_rescale", IsPositive<&P::guidance_rescale>, NoGuidance, kNeedsGuidance},
    {"guidance_interval", IsOtherInterval, NoGuidance, kNeedsGuidance},
    {"clip_skip", IsPositive<&P::clip_skip>,
     [](const Facts& facts) { return !facts.AnyModel(&ModelReads::clip_skip); },
     "only the base reads it"},
    {"prompt_2", IsOtherPrompt, NoSecondPrompts, kOneTextEncoder},
    {"negative_prompt", IsText<&P::negative_prompt>, NoGuidance, kNeedsGuidance},
    {"negative_prompt_2", IsText<&P::negative_prompt_2>, NoGuidance, kNeedsGuidance},
    {"negative_prompt_2", IsOtherNegativePrompt, NoSecondPrompts, kOneTextEncoder},
    {"negative_prompt_2", IsText<&P::negative_prompt_2>, ZerosForNegative,
     "this checkpoint takes zeros where negative_prompt is not set; set that too"},
    {"target_size", IsOtherTargetSize, OnlyAestheticScores, kRefinerReadsScores},
    {"negative_original_size", IsSet<&P::negative_original_size>, NoGuidance, kNeedsGuidance},
    {"negative_original_size", IsSet<&P::negative_original_size>, NoNegativeSizes, kNeedsBothSizes},
    {"negative_target_size", IsSet<&P::negative_target_size>, NoGuidance, kNeedsGuidance},
    {"negative_target_size", IsSet<&P::negative_target_size>, OnlyAestheticScores,
     kRefinerReadsScores},
    {"negative_target_size", IsSet<&P::negative_target_size>, NoNegativeSizes, kNeedsBothSizes},
    {"negative_crops_coords_top_left", IsSet<&P::negative_crops_coords_top_left>, NoGuidance,
     kNeedsGuidance},
    {"negative_crops_coords_top_left", IsSet<&P::negative_crops_coords_top_left>, NoNegativeCrop,
     "only text-to-image with both negative sizes, and the refiner, read it"},
    {"aesthetic_score", IsOtherScore, NoAestheticScores, kNeedsRefiner},
    {"negative_aesthetic_score", IsOtherNegativeScore, NoAestheticScores, kNeedsRefiner},
    {"negative_aesthetic_score", IsOtherNegativeScore, NoGuidance, kNeedsGuidance},
    {"previews", IsSet<&P::previews_every>,
     [](const Facts& facts) { return !facts.asked.takes_previews; },
     "they come while a stream is read"},
    {"previews", IsSet<&P::previews_every>,
     [](const Facts& facts) { return !facts.AnyModel(&ModelReads::previews); },
     "the checkpoint has no vae_tiny, and the colours of its latents are not known"},
};

}  // namespace

std::vector<std::string> FindUnusedParameters(const PictureSpec& asked, const PictureSpec& resolved,
                                              absl::Span<const ModelReads> models) {
  const Facts facts = {
      asked, resolved, models, UsesGuidance(resolved),
      resolved.negative_original_size.has_value() && resolved.negative_target_size.has_value()};
  std::vector<std::string> found;
  absl::string_view last;
  for (const Rule& rule : kRules) {
    if (rule.parameter == last || !rule.asked(asked, resolved) || !rule.unused(facts)) continue;
    found.push_back(absl::StrCat(rule.parameter, " has no effect: ", rule.why));
    last = rule.parameter;
  }
  return found;
}

}  // namespace latentd::pipeline
