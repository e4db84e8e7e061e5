#include "core/pipeline/validation.h"

#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "core/pipeline/components.h"
#include "core/pipeline/limits.h"

namespace latentd::pipeline {
namespace {

// Collects violations, a method for each kind of rule.
class Violations {
 public:
  void Add(absl::string_view field, absl::string_view description) {
    found_.push_back({std::string(field), std::string(description)});
  }

  template <typename T>
  void Range(absl::string_view field, const std::optional<T>& value, T low, T high) {
    // Written so that NaN is out of range.
    if (value && !(*value >= low && *value <= high)) {
      Add(field, absl::StrCat("must be ", low, " to ", high, ", is ", *value));
    }
  }

  // Above 0 and below 1, or 1 too.
  enum class Whole : uint8_t { kRefused, kTaken };
  void Fraction(absl::string_view field, const std::optional<double>& value, Whole whole) {
    const bool taken = whole == Whole::kTaken;
    if (!value || (*value > 0 && (*value < 1 || (taken && *value == 1)))) return;
    Add(field, absl::StrCat("must be greater than 0 and ", taken ? "at most" : "less than",
                            " 1, is ", *value));
  }

  void Text(absl::string_view field, absl::string_view text) {
    if (text.size() > kMaxPromptBytes) {
      Add(field, absl::StrCat("must be at most ", kMaxPromptBytes, " bytes, is ", text.size()));
    }
  }

  void Side(absl::string_view field, const std::optional<int>& side, int multiple) {
    if (side && (*side < kMinSide || *side > kMaxSide || *side % multiple != 0)) {
      Add(field, absl::StrCat("must be a multiple of ", multiple, " from ", kMinSide, " to ",
                              kMaxSide, ", is ", *side));
    }
  }

  // The networks are told a number like any other: 0 and less are taken, as in diffusers.
  void Conditioning(absl::string_view field, const std::optional<Size>& size) {
    if (!size || (IsConditioning(size->width) && IsConditioning(size->height))) return;
    Add(field, absl::StrCat("each side must be ", -kMaxConditioning, " to ", kMaxConditioning,
                            ", is ", SizeText(*size)));
  }

  void Conditioning(absl::string_view field, const std::optional<Offset>& offset) {
    if (!offset || (IsConditioning(offset->top) && IsConditioning(offset->left))) return;
    Add(field, absl::StrCat("each must be ", -kMaxConditioning, " to ", kMaxConditioning,
                            ", is top ", offset->top, " left ", offset->left));
  }

  std::vector<FieldViolation> Take() { return std::move(found_); }

 private:
  static bool IsConditioning(int value) {
    return -kMaxConditioning <= value && value <= kMaxConditioning;
  }

  std::vector<FieldViolation> found_;
};

void CheckPrompts(const PictureSpec& spec, Violations& v) {
  v.Text("prompt", spec.prompt);
  v.Text("prompt_2", spec.prompt_2.value_or(""));
  v.Text("negative_prompt", spec.negative_prompt.value_or(""));
  v.Text("negative_prompt_2", spec.negative_prompt_2.value_or(""));
}

void CheckSize(const PictureSpec& spec, const Traits& traits, Violations& v) {
  v.Side("width", spec.width, traits.side_multiple);
  v.Side("height", spec.height, traits.side_multiple);
  const int64_t pixels = int64_t{spec.width.value_or(traits.default_size.width)} *
                         spec.height.value_or(traits.default_size.height);
  if (pixels > kMaxPixels) {
    v.Add(spec.width ? "width" : "height",
          absl::StrCat("width x height must be at most ", kMaxPixels, " pixels, is ", pixels));
  }
}

// None, or from `least` to `most`.
void CheckOwnSchedule(absl::string_view field, const std::vector<double>& values, int least,
                      int most, Violations& v) {
  const int count = static_cast<int>(values.size());
  if (count > most || (count > 0 && count < least)) {
    v.Add(field, absl::StrCat("must have ", least, " to ", most, " entries, has ", count));
  }
  for (double value : values) {
    if (!std::isfinite(value) || value < 0) {
      return v.Add(field, absl::StrCat("entries must be finite and not negative, one is ", value));
    }
  }
}

void CheckSteps(const PictureSpec& spec, const Traits& traits, Violations& v) {
  v.Range("num_inference_steps", spec.num_inference_steps, kMinSteps, kMaxSteps);
  v.Range("guidance_scale", spec.guidance_scale, 0.0, kMaxGuidanceScale);
  v.Range("guidance_rescale", spec.guidance_rescale, 0.0, 1.0);
  v.Range("eta", spec.eta, 0.0, 1.0);
  v.Range("clip_skip", spec.clip_skip, 0, traits.max_clip_skip);
  CheckOwnSchedule("timesteps", spec.timesteps, kMinSteps, kMaxSteps, v);
  CheckOwnSchedule("sigmas", spec.sigmas, kMinSteps + 1, kMaxSteps + 1, v);
  const int schedules = !spec.timesteps.empty() + !spec.sigmas.empty();
  if (schedules + spec.num_inference_steps.has_value() > 1) {
    v.Add(schedules == 2 ? "sigmas" : "num_inference_steps",
          "only one of num_inference_steps, timesteps and sigmas may be set");
  }
}

void CheckGuidanceInterval(const PictureSpec& spec, Violations& v) {
  if (!spec.guidance_interval) return;
  const auto& [start, stop] = *spec.guidance_interval;
  // Written so that NaN is out of range.
  if (start >= 0 && start < stop && stop <= 1) return;
  v.Add("guidance_interval", absl::StrCat("must be 0 <= start < stop <= 1, is start ", start,
                                          " and stop ", stop, "; what is not set is 0"));
}

void CheckPictures(const PictureSpec& spec, Violations& v) {
  v.Range("num_images_per_prompt", spec.num_images_per_prompt, 1, kMaxImagesPerPrompt);
  if (spec.seed && !spec.seeds.empty()) v.Add("seeds", "must be empty when seed is set");
  const size_t pictures = static_cast<size_t>(spec.num_images_per_prompt.value_or(
      spec.seeds.empty() ? 1 : static_cast<int>(spec.seeds.size())));
  if (!spec.seeds.empty() && spec.num_images_per_prompt && spec.seeds.size() != pictures) {
    v.Add("seeds", absl::StrCat("must have one entry for each of ", pictures, " images, has ",
                                spec.seeds.size()));
  }
  if (spec.seeds.size() > static_cast<size_t>(kMaxImagesPerPrompt)) {
    v.Add("seeds", absl::StrCat("must have at most ", kMaxImagesPerPrompt, " entries, has ",
                                spec.seeds.size()));
  }
}

void CheckPreviews(const PictureSpec& spec, Violations& v) {
  if (spec.previews_every.value_or(1) >= 1) return;
  v.Add("previews.every_n_steps", absl::StrCat("must be at least 1, is ", *spec.previews_every));
}

void CheckMicroConditioning(const PictureSpec& spec, Violations& v) {
  v.Conditioning("original_size", spec.original_size);
  v.Conditioning("target_size", spec.target_size);
  v.Conditioning("crops_coords_top_left", spec.crops_coords_top_left);
  v.Conditioning("negative_original_size", spec.negative_original_size);
  v.Conditioning("negative_target_size", spec.negative_target_size);
  v.Conditioning("negative_crops_coords_top_left", spec.negative_crops_coords_top_left);
  v.Range("aesthetic_score", spec.aesthetic_score, 0.0, kMaxAestheticScore);
  v.Range("negative_aesthetic_score", spec.negative_aesthetic_score, 0.0, kMaxAestheticScore);
}

// `field` asks for what needs the component.
void CheckIsOn(absl::string_view field, const std::string& component, const Traits& traits,
               Violations& v) {
  if (!traits.off.contains(component)) return;
  v.Add(field, absl::StrCat("needs the component ", component, ", which is off on this server"));
}

void CheckDraws(absl::string_view field, const ModelRow& model, const Traits& traits,
                Violations& v) {
  CheckIsOn(field, FlagNameOf(kUnetName, model.name), traits, v);
}

void AddNoModel(absl::string_view field, absl::string_view name, Violations& v) {
  v.Add(field, absl::StrCat("this server has no ", Excerpt(name), " (start it with --",
                            Excerpt(name), "=DIR)"));
}

void CheckHandsOver(const ModelRow& model, const Traits& traits, Violations& v) {
  if (model.hands_over_to) {
    CheckDraws("refine", traits.models[*model.hands_over_to], traits, v);
  } else if (!model.is_refiner) {
    AddNoModel("refine", "refiner", v);
  }
}

void CheckModels(const PictureSpec& spec, const Traits& traits, Violations& v) {
  const ModelRow* model = traits.models.Find(spec.model);
  if (model == nullptr) {
    AddNoModel("model", spec.model, v);
  } else {
    CheckDraws("model", *model, traits, v);
    if (spec.refine) CheckHandsOver(*model, traits, v);
  }
  if (spec.has_image) CheckIsOn("image", "vae_encoder", traits, v);
}

bool IsRefiner(const PictureSpec& spec, const Traits& traits) {
  const ModelRow* model = traits.models.Find(spec.model);
  return model != nullptr && model->is_refiner;
}

void CheckStages(const PictureSpec& spec, const Traits& traits, Violations& v) {
  const bool has_image = spec.has_image;
  const bool is_refiner = IsRefiner(spec, traits);
  if (is_refiner && !has_image) {
    v.Add("image", "the refiner starts from an image: set image, or use the base with refine");
  }
  if (spec.has_latents && has_image) {
    v.Add("latents",
          "are what text-to-image starts from, and have no effect on an image: unset one");
  }
  if (spec.refine && (is_refiner || has_image)) {
    v.Add("refine", "goes with text-to-image on the base only: unset image and model");
  }
}

// 1 cuts nothing, as in diffusers, and so leaves nothing to a refiner.
void CheckDenoisingEnd(const PictureSpec& spec, Violations& v) {
  using Whole = Violations::Whole;
  v.Fraction("denoising_end", spec.denoising_end, spec.refine ? Whole::kRefused : Whole::kTaken);
}

// Defaults of the spec's model; the first one's where there is no such model.
const ModelDefaults& DefaultsOf(const PictureSpec& spec, const Traits& traits) {
  const ModelRow* model = traits.models.Find(spec.model);
  return model == nullptr ? traits.models.rows().front().defaults : model->defaults;
}

bool HasSteps(const PictureSpec& spec) {
  return spec.num_inference_steps || !spec.timesteps.empty() || !spec.sigmas.empty();
}

void CheckFractions(const PictureSpec& spec, const Traits& traits, Violations& v) {
  CheckDenoisingEnd(spec, v);
  v.Fraction("denoising_start", spec.denoising_start, Violations::Whole::kRefused);
  v.Fraction("strength", spec.strength, Violations::Whole::kTaken);
  if (spec.strength && !spec.has_image) v.Add("strength", "needs an image");
  if (spec.denoising_start && !spec.has_image) v.Add("denoising_start", "needs an image");
  if (spec.strength && spec.denoising_start) {
    v.Add("strength", "must not be set together with denoising_start, which decides the same");
  }
  if (spec.denoising_start && spec.denoising_end && *spec.denoising_start >= *spec.denoising_end) {
    v.Add("denoising_start", "must be less than denoising_end");
  }
  // Diffusers' img2img runs int(steps * strength) steps.
  const int steps = HasSteps(spec) ? StepsOf(spec) : DefaultsOf(spec, traits).steps;
  if (spec.strength && *spec.strength > 0 && steps * *spec.strength < 1) {
    v.Add("strength", absl::StrCat("leaves no step to run: ", steps, " steps x ", *spec.strength,
                                   " is less than 1"));
  }
}

std::vector<uint64_t> SeedsOf(const PictureSpec& spec) {
  if (!spec.seeds.empty()) return spec.seeds;
  const uint64_t first = spec.seed ? *spec.seed : std::random_device()();
  std::vector<uint64_t> seeds(static_cast<size_t>(spec.num_images_per_prompt.value_or(1)));
  for (size_t i = 0; i < seeds.size(); ++i) seeds[i] = first + i;  // wraps, as unsigned does
  return seeds;
}

template <typename T>
void Default(std::optional<T>& field, T value) {
  if (!field) field = std::move(value);
}

void FillSizes(PictureSpec& spec, const Traits& traits, const Size* image_size) {
  const auto cut = [&](int side) { return side - side % traits.side_multiple; };
  const Size own =
      image_size ? Size{cut(image_size->width), cut(image_size->height)} : traits.default_size;
  Default(spec.width, own.width);
  Default(spec.height, own.height);
  Default(spec.original_size, Size{*spec.width, *spec.height});
  Default(spec.target_size, Size{*spec.width, *spec.height});
  Default(spec.crops_coords_top_left, Offset{});
}

}  // namespace

std::vector<FieldViolation> FindViolations(const PictureSpec& spec, const Traits& traits) {
  Violations v;
  CheckPrompts(spec, v);
  CheckSize(spec, traits, v);
  CheckSteps(spec, traits, v);
  CheckGuidanceInterval(spec, v);
  CheckPictures(spec, v);
  CheckPreviews(spec, v);
  CheckMicroConditioning(spec, v);
  CheckModels(spec, traits, v);
  CheckStages(spec, traits, v);
  CheckFractions(spec, traits, v);
  return v.Take();
}

PictureSpec WithDefaults(PictureSpec spec, const Traits& traits, const Size* image_size) {
  const ModelRow& model = *traits.models.Find(spec.model);
  spec.model = model.name;
  FillSizes(spec, traits, image_size);
  if (!HasSteps(spec)) spec.num_inference_steps = model.defaults.steps;
  Default(spec.guidance_scale, model.defaults.guidance_scale);
  Default(spec.guidance_rescale, 0.0);
  Default(spec.guidance_interval, GuidanceInterval());
  Default(spec.eta, 0.0);
  Default(spec.aesthetic_score, kDefaultAestheticScore);
  Default(spec.negative_aesthetic_score, kDefaultNegativeAestheticScore);
  if (spec.has_image && !spec.denoising_start) Default(spec.strength, model.defaults.strength);
  if (spec.refine) Default(spec.denoising_end, model.defaults.denoising_end);
  if (!spec.takes_previews) spec.previews_every.reset();
  spec.seeds = SeedsOf(spec);
  spec.seed.reset();  // seeds says it all
  spec.num_images_per_prompt = static_cast<int>(spec.seeds.size());
  return spec;
}

int StepsOf(const PictureSpec& spec) {
  if (!spec.timesteps.empty()) return static_cast<int>(spec.timesteps.size());
  if (!spec.sigmas.empty()) return static_cast<int>(spec.sigmas.size()) - 1;
  return *spec.num_inference_steps;
}

}  // namespace latentd::pipeline
