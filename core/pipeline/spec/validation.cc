#include "core/pipeline/spec/validation.h"

#include <random>
#include <type_traits>

#include "core/base/text/text.h"
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

void CheckField(const Field& field, const AskedSpec& asked, Violations& found) {
  if (field.range) found.CheckRange(field, *field.range, asked.spec);
  for (const auto& rule : field.rules) rule(field, asked, found);
}

}  // namespace

void Violations::CheckRange(const Field& field, const Range& range, const PictureSpec& spec) {
  const double low = range.low, high = range.high;
  using Ends = Range::Ends;
  const Ends ends = range.ends;
  // Written so that NaN is out of range.
  const auto is_in = [&](double value) {
    return (value > low && value < high) || (value == low && ends == Ends::kBoth) ||
           (value == high && ends != Ends::kNone);
  };
  const std::string right =
      ends == Ends::kBoth ? absl::StrCat(low, " to ", high)
                          : absl::StrCat("greater than ", low, " and ",
                                         ends == Ends::kHigh ? "at most " : "less than ", high);
  VisitField(field, spec, [&]<typename T>(const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      CheckBytes(field.name, value, high);
    } else if constexpr (std::is_same_v<T, std::optional<std::string>>) {
      CheckBytes(field.name, value.value_or(""), high);
    } else if constexpr (std::is_same_v<T, std::optional<Size>>) {
      if (!value || (is_in(value->width) && is_in(value->height))) return;
      Add(field.name, "each side must be ", right, ", is ", SizeText(*value));
    } else if constexpr (std::is_same_v<T, std::optional<Offset>>) {
      if (!value || (is_in(value->top) && is_in(value->left))) return;
      Add(field.name, "each must be ", right, ", is top ", value->top, " left ", value->left);
    } else if constexpr (std::is_same_v<T, std::optional<int>> ||
                         std::is_same_v<T, std::optional<double>>) {
      if (value && !is_in(*value)) Add(field.name, "must be ", right, ", is ", *value);
    }
  });
}

void Violations::CheckBytes(absl::string_view field, const std::string& text, double most) {
  if (static_cast<double>(text.size()) <= most) return;
  Add(field, "must be at most ", most, " bytes, is ", text.size());
}

std::vector<FieldViolation> FindViolations(const PictureSpec& spec, const Traits& traits) {
  Violations found;
  for (const Field& field : Fields()) CheckField(field, {spec, traits}, found);
  return found.Take();
}

std::vector<FieldViolation> FindViolationsOf(absl::string_view name, const PictureSpec& spec,
                                             const Traits& traits) {
  Violations found;
  for (const Field& field : Fields()) {
    if (field.name == name) CheckField(field, {spec, traits}, found);
  }
  return found.Take();
}

PictureSpec WithDefaults(PictureSpec spec, const Traits& traits, const Size* image_size,
                         const ModelDefaults* defaults) {
  const ModelRow& model = *traits.models.Find(spec.model);
  spec.model = model.name;
  const bool is_images = image_size != nullptr && !spec.padding_mask_crop;
  const DefaultSources sources = {
      is_images ? CutTo(traits.side_multiple, *image_size) : model.default_size,
      defaults != nullptr ? *defaults : model.defaults};
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
