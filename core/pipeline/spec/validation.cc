#include "core/pipeline/spec/validation.h"

#include <random>
#include <utility>

#include "core/pipeline/spec/fields.h"

namespace latentd::pipeline {
namespace {

std::vector<uint64_t> SeedsOf(const PictureSpec& spec) {
  if (!spec.seeds.empty()) return spec.seeds;
  const uint64_t first = spec.seed ? *spec.seed : std::random_device()();
  std::vector<uint64_t> seeds(static_cast<size_t>(spec.num_images_per_prompt.value_or(1)));
  for (size_t i = 0; i < seeds.size(); ++i) seeds[i] = first + i;  // wraps, as unsigned does
  return seeds;
}

Size CutTo(int multiple, const Size& size) {
  return {size.width - size.width % multiple, size.height - size.height % multiple};
}

}  // namespace

std::vector<FieldViolation> FindViolations(const PictureSpec& spec, const Traits& traits) {
  const AskedSpec asked = {spec, traits};
  Violations found;
  for (const Field& field : Fields()) {
    if (field.range) found.CheckRange(field, *field.range, spec);
    for (const auto& rule : field.rules) rule(field, asked, found);
  }
  return found.Take();
}

PictureSpec WithDefaults(PictureSpec spec, const Traits& traits, const Size* image_size) {
  const ModelRow& model = *traits.models.Find(spec.model);
  spec.model = model.name;
  const DefaultSources sources = {
      image_size ? CutTo(traits.side_multiple, *image_size) : traits.default_size, model.defaults};
  for (const Field& field : Fields()) {
    if (field.fill != nullptr && !IsSet(field, spec)) field.fill(field, spec, sources);
  }
  if (!spec.takes_previews) spec.previews_every.reset();
  spec.seeds = SeedsOf(spec);
  spec.seed.reset();  // seeds says it all
  spec.num_images_per_prompt = static_cast<int>(spec.seeds.size());
  return spec;
}

bool HasSteps(const PictureSpec& spec) {
  return spec.num_inference_steps || !spec.timesteps.empty() || !spec.sigmas.empty();
}

int StepsOf(const PictureSpec& spec) {
  if (!spec.timesteps.empty()) return static_cast<int>(spec.timesteps.size());
  if (!spec.sigmas.empty()) return static_cast<int>(spec.sigmas.size()) - 1;
  return *spec.num_inference_steps;
}

}  // namespace latentd::pipeline
