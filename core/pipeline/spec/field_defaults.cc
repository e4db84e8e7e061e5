#include "core/pipeline/spec/field_defaults.h"

#include <optional>
#include <type_traits>
#include <variant>

#include "core/pipeline/spec/models/model_table.h"
#include "core/pipeline/spec/validation.h"

namespace latentd::pipeline {

void FillNeutral(const Field& field, PictureSpec& spec, const DefaultSources&) {
  VisitField(field, spec, [&]<typename T>(T& value) {
    if constexpr (std::is_same_v<T, std::optional<double>>) {
      value = field.neutral;
    } else if constexpr (requires { value.emplace(); }) {
      value.emplace();
    }
  });
}

void FillSize(const Field& field, PictureSpec& spec, const DefaultSources&) {
  *std::get<std::optional<Size>*>(field.member(spec)) = Size{*spec.width, *spec.height};
}

void FillWidth(const Field&, PictureSpec& spec, const DefaultSources& from) {
  spec.width = from.size.width;
}
void FillHeight(const Field&, PictureSpec& spec, const DefaultSources& from) {
  spec.height = from.size.height;
}

void FillSteps(const Field&, PictureSpec& spec, const DefaultSources& from) {
  if (HasSteps(spec)) return;
  // Timesteps are for the model's own scheduler: another one need not take them.
  if (spec.scheduler.name.empty() && !spec.refine) {
    spec.timesteps.assign(from.model.timesteps.begin(), from.model.timesteps.end());
  }
  if (spec.timesteps.empty()) spec.num_inference_steps = from.model.steps;
}

void FillGuidance(const Field&, PictureSpec& spec, const DefaultSources& from) {
  // With a differential mask diffusers' pipelines have image-to-image's.
  const bool inpaints = spec.has_mask && !spec.differential;
  spec.guidance_scale = inpaints ? from.model.mask_guidance_scale : from.model.guidance_scale;
}

void FillEta(const Field&, PictureSpec& spec, const DefaultSources& from) {
  spec.eta = spec.scheduler.name.empty() ? from.model.eta : 0;
}

void FillGuidanceStop(const Field&, PictureSpec& spec, const DefaultSources& from) {
  if (spec.effort) spec.guidance_stop = from.model.of(*spec.effort).guidance_stop;
}

void FillFeatureCache(const Field&, PictureSpec& spec, const DefaultSources& from) {
  if (spec.effort) spec.feature_cache_interval = from.model.of(*spec.effort).feature_cache_interval;
}

void FillDenoisingEnd(const Field&, PictureSpec& spec, const DefaultSources& from) {
  if (spec.refine) spec.denoising_end = from.model.denoising_end;
}

void FillStrength(const Field&, PictureSpec& spec, const DefaultSources& from) {
  if (!spec.has_image || spec.denoising_start) return;
  spec.strength = spec.has_mask ? from.model.mask_strength : from.model.strength;
  if (spec.differential) spec.strength = 1;  // the mask says how much
}

}  // namespace latentd::pipeline
