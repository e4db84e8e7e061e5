#include "core/pipeline/spec/presets.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/text/text.h"
#include "core/pipeline/spec/validation.h"

namespace latentd::pipeline {
namespace {

constexpr Size kHalfMegapixel = {512, 512};
// Points of the noise schedule that networks were trained at, by their cards.
constexpr double kHyperOne[] = {800};
constexpr double kDmdOne[] = {399};
constexpr double kDmd[] = {999, 749, 499, 249};

constexpr absl::string_view kEulerTrailing =
    R"({"_class_name": "EulerDiscreteScheduler", "timestep_spacing": "trailing"})";
constexpr absl::string_view kEulerOfSample =
    R"({"_class_name": "EulerDiscreteScheduler", "timestep_spacing": "trailing",
        "prediction_type": "sample"})";
constexpr absl::string_view kAncestralTrailing =
    R"({"_class_name": "EulerAncestralDiscreteScheduler", "timestep_spacing": "trailing"})";
constexpr absl::string_view kAncestral = R"({"_class_name": "EulerAncestralDiscreteScheduler"})";
constexpr absl::string_view kDdimTrailing =
    R"({"_class_name": "DDIMScheduler", "timestep_spacing": "trailing", "clip_sample": false})";
constexpr absl::string_view kLcm = R"({"_class_name": "LCMScheduler"})";
constexpr absl::string_view kTcd = R"({"_class_name": "TCDScheduler"})";
constexpr absl::string_view kEulerOfVelocity =
    R"({"_class_name": "EulerDiscreteScheduler", "timestep_spacing": "trailing",
        "prediction_type": "v_prediction", "rescale_betas_zero_snr": true})";

// A preset of checkpoints that were distilled to draw in so many steps, without guidance.
constexpr Preset Distilled(absl::string_view name, int steps, absl::string_view scheduler_config,
                           bool needs_trailing = true, absl::string_view family = "sdxl") {
  return {.name = name,
          .family = family,
          .steps = steps,
          .scheduler_config = scheduler_config,
          .exact_steps = true,
          .most_guidance = 1,
          .needs_trailing = needs_trailing};
}

// The same at points of the noise schedule of its own.
constexpr Preset AtTimesteps(absl::string_view name, absl::Span<const double> timesteps) {
  Preset preset =
      Distilled(name, static_cast<int>(timesteps.size()), kLcm, /*needs_trailing=*/false);
  preset.timesteps = timesteps;
  return preset;
}

// The same with noise in each step.
constexpr Preset Tcd(absl::string_view name, absl::string_view family, int steps, double eta) {
  return {.name = name,
          .family = family,
          .steps = steps,
          .eta = eta,
          .scheduler_config = kTcd,
          .most_guidance = 1};
}

constexpr Preset Turbo(absl::string_view family, absl::string_view scheduler_config) {
  return {.name = "turbo",
          .family = family,
          .steps = 1,
          .size = kHalfMegapixel,
          .scheduler_config = scheduler_config,
          .most_steps = 4,
          .most_guidance = 1,
          .needs_trailing = true};
}

constexpr Preset Lcm(absl::string_view family) {
  return {.name = "lcm",
          .family = family,
          .steps = 4,
          .guidance_scale = 1,
          .told_guidance_scale = 8,
          .scheduler_config = kLcm,
          .most_steps = 8,
          .most_guidance = 2};
}

// A preset of checkpoints that were trained on, with guidance.
constexpr Preset Tuned(absl::string_view name, int steps, double guidance_scale,
                       absl::string_view scheduler_config, bool needs_trailing = false) {
  return {.name = name,
          .family = "sdxl",
          .steps = steps,
          .guidance_scale = guidance_scale,
          .scheduler_config = scheduler_config,
          .needs_trailing = needs_trailing};
}

constexpr Preset kPresets[] = {
    Turbo("sdxl", kAncestralTrailing),
    Turbo("sd1", kEulerTrailing),
    Distilled("lightning-1", 1, kEulerOfSample),
    Distilled("lightning-2", 2, kEulerTrailing),
    Distilled("lightning-4", 4, kEulerTrailing),
    Distilled("lightning-8", 8, kEulerTrailing),
    AtTimesteps("hyper-1", kHyperOne),
    Distilled("hyper-2", 2, kDdimTrailing),
    Distilled("hyper-4", 4, kDdimTrailing),
    Distilled("hyper-8", 8, kDdimTrailing),
    Distilled("hyper-2", 2, kDdimTrailing, /*needs_trailing=*/true, "sd1"),
    Distilled("hyper-4", 4, kDdimTrailing, /*needs_trailing=*/true, "sd1"),
    Distilled("hyper-8", 8, kDdimTrailing, /*needs_trailing=*/true, "sd1"),
    Tcd("hyper-unified", "sdxl", 1, 1),
    Tcd("hyper-unified", "sd1", 1, 1),
    Tuned("hyper-8-cfg", 8, 5, kDdimTrailing, /*needs_trailing=*/true),
    Tuned("hyper-12-cfg", 12, 5, kDdimTrailing, /*needs_trailing=*/true),
    Lcm("sdxl"),
    Lcm("sd1"),
    Tcd("tcd", "sdxl", 4, 0.3),
    Tcd("tcd", "sd1", 4, 0.3),
    AtTimesteps("dmd2", kDmd),
    AtTimesteps("dmd2-1", kDmdOne),
    Tuned("koala-lightning", 10, 3.5, kEulerTrailing, /*needs_trailing=*/true),
    Tuned("pony", 25, 7, kAncestral),
    Tuned("illustrious", 28, 6, kAncestral),
    Tuned("noobai", 28, 5, kAncestral),
    Tuned("noobai-v", 28, 4.5, kEulerOfVelocity, /*needs_trailing=*/true),
};

constexpr absl::string_view kNone = "none";

// Checkpoints that draw in fewer steps change too much from one to the next for cached features.
constexpr int kLeastCachedSteps = 20;

// True if a file's name has the words of a preset's; of a number, "4step".
bool Speaks(absl::string_view file, const Preset& preset) {
  const std::pair<absl::string_view, absl::string_view> words =
      absl::StrSplit(preset.name, absl::MaxSplits('-', 1));
  if (!absl::StrContains(file, words.first)) return false;
  if (words.second.empty()) return true;
  if (words.second == "v") {
    return absl::StrContains(file, "vpred") || absl::StrContains(file, "v-pred") ||
           absl::StrContains(file, "v_pred");
  }
  const bool is_number = absl::ascii_isdigit(words.second[0]);
  const std::string second = absl::StrCat(words.second, is_number ? "step" : "");
  const size_t found = file.find(second);
  // "8step" is not said by "18step".
  return found != absl::string_view::npos && (found == 0 || !absl::ascii_isalnum(file[found - 1]));
}

std::vector<const Preset*> PresetsOf(absl::string_view family) {
  std::vector<const Preset*> presets;
  for (const Preset& preset : kPresets) {
    if (preset.family == family) presets.push_back(&preset);
  }
  return presets;
}

std::string NamesOf(const std::vector<const Preset*>& presets) {
  if (presets.empty()) return "there are none";
  const auto name = [](std::string* out, const Preset* preset) {
    absl::StrAppend(out, preset->name);
  };
  return absl::StrCat("there are ", absl::StrJoin(presets, ", ", name));
}

}  // namespace

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) {
    if (!absl::c_linear_search(names, preset.name)) names.emplace_back(preset.name);
  }
  return names;
}

absl::Status CheckPresetName(absl::string_view name) {
  if (name == kNone || absl::c_linear_search(PresetNames(), name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("unknown preset ", Excerpt(name), "; there are ",
                                                 absl::StrJoin(PresetNames(), ", "), ", and ",
                                                 kNone));
}

absl::StatusOr<const Preset*> FindPreset(absl::string_view name, absl::string_view family) {
  if (name.empty() || name == kNone) return nullptr;
  const std::vector<const Preset*> presets = PresetsOf(family);
  const auto found =
      absl::c_find_if(presets, [name](const Preset* preset) { return preset->name == name; });
  if (found != presets.end()) return *found;
  return absl::InvalidArgumentError(absl::StrCat("there is no preset ", Excerpt(name),
                                                 " for a checkpoint of the family ", family, "; ",
                                                 NamesOf(presets)));
}

const Preset* GuessPreset(absl::string_view path, absl::string_view family) {
  const std::filesystem::path whole = std::string(path);
  const std::string last = (whole.has_filename() ? whole : whole.parent_path()).filename();
  const std::string file = absl::AsciiStrToLower(last);
  const Preset* guess = nullptr;
  for (const Preset* preset : PresetsOf(family)) {
    const bool closer = guess == nullptr || preset->name.size() > guess->name.size();
    if (closer && Speaks(file, *preset)) guess = preset;
  }
  return guess;
}

ModelDefaults WithPreset(ModelDefaults defaults, const Preset* preset, bool is_told_guidance) {
  if (preset == nullptr) return defaults;
  defaults.steps = preset->steps;
  defaults.timesteps = preset->timesteps;
  defaults.guidance_scale = is_told_guidance
                                ? preset->told_guidance_scale.value_or(defaults.guidance_scale)
                                : preset->guidance_scale;
  defaults.eta = preset->eta;
  defaults.mask_guidance_scale =
      is_told_guidance ? preset->told_guidance_scale.value_or(defaults.mask_guidance_scale)
                       : preset->guidance_scale;
  // Image-to-image runs one step at least.
  const double least = std::min(1.0, 1.0 / preset->steps);
  defaults.strength = std::max(defaults.strength, least);
  defaults.mask_strength = std::max(defaults.mask_strength, least);
  if (preset->steps < kLeastCachedSteps) {
    for (EffortSettings& settings : defaults.efforts) settings.feature_cache_interval = 1;
  }
  return defaults;
}

std::vector<std::string> FindMisuse(const Preset& preset, const PictureSpec& resolved,
                                    const DrawnBy& drawn) {
  std::vector<std::string> found;
  const auto add = [&](absl::string_view value, absl::string_view made_for) {
    found.push_back(absl::StrCat(value, " is not what ", drawn.made, " of the preset ", preset.name,
                                 " is made for: ", made_for));
  };
  const int steps = StepsOf(resolved);
  if (preset.exact_steps && steps != preset.steps) {
    add(absl::StrCat("num_inference_steps ", steps), absl::StrCat("exactly ", preset.steps));
  } else if (preset.most_steps > 0 && steps > preset.most_steps) {
    add(absl::StrCat("num_inference_steps ", steps), absl::StrCat("at most ", preset.most_steps));
  }
  if (!preset.timesteps.empty() && resolved.timesteps.empty() && resolved.sigmas.empty()) {
    add("num_inference_steps without timesteps",
        absl::StrCat("timesteps ", absl::StrJoin(preset.timesteps, ", ")));
  }
  if (preset.most_guidance > 0 && !drawn.is_told_guidance &&
      *resolved.guidance_scale > preset.most_guidance) {
    add(absl::StrCat("guidance_scale ", *resolved.guidance_scale),
        absl::StrCat("at most ", preset.most_guidance));
  }
  if (preset.needs_trailing && !drawn.is_trailing) add("the timestep_spacing", "trailing");
  return found;
}

}  // namespace latentd::pipeline
