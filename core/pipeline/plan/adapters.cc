#include "core/pipeline/plan/adapters.h"

#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/pipeline/plan/named_adapter.h"
#include "core/pipeline/plan/refusals.h"
#include "core/pipeline/spec/presets.h"
#include "core/schedulers/config/overrides_of.h"

namespace latentd::pipeline {
namespace {

bool HasIgnoringCase(absl::string_view text, absl::string_view part) {
  return absl::StrContains(absl::AsciiStrToLower(text), absl::AsciiStrToLower(part));
}

void WarnOf(const LoadedModel& model, const AdapterFacts& facts, const PictureSpec& spec,
            std::vector<std::string>& warnings) {
  for (const std::string& warning : facts.warnings) {
    warnings.push_back(absl::StrCat("adapter ", facts.name, ": ", warning));
  }
  const std::string& phrase = facts.trigger_phrase;
  const bool has_prompt = !spec.has_prompt_embeds;
  if (has_prompt && !phrase.empty() && !HasIgnoringCase(spec.prompt, phrase) &&
      !HasIgnoringCase(spec.prompt_2.value_or(""), phrase)) {
    warnings.push_back(
        absl::StrCat("adapter ", facts.name, ": the prompt has not its words: ", phrase));
  }
  const bool predicts_velocity = absl::StartsWith(facts.prediction_type, "v");
  const bool says = facts.prediction_type == "v" || facts.prediction_type == "epsilon" ||
                    facts.prediction_type == "v_prediction";
  if (says && predicts_velocity != (model.configs().prediction_type == "v_prediction")) {
    warnings.push_back(absl::StrCat("adapter ", facts.name, " was trained for ",
                                    facts.prediction_type, ", and the model predicts ",
                                    model.configs().prediction_type));
  }
}

absl::Status ResolveOne(adapters::Catalogue* catalogue, const LoadedModel& model,
                        const std::string& field, PictureSpec& spec, Adapter& adapter,
                        std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(const AdapterFacts facts,
                   FindAdapter(catalogue, model, AdapterKind::kLora, field, adapter.name));
  adapter.stamp = facts.stamp;
  adapter.digest = facts.digest;
  adapter.path_rank = facts.path_rank;
  adapter.weight = adapter.unet_factor();
  adapter.text_encoder_weight = adapter.text_factor();
  if (*adapter.weight == 0 && *adapter.text_encoder_weight == 0) {
    warnings.push_back(absl::StrCat("adapter ", adapter.name, " has no effect: its weight is 0"));
  } else {
    WarnOf(model, facts, spec, warnings);
  }
  return absl::OkStatus();
}

bool AnyPrompt(const PictureSpec& spec, absl::FunctionRef<bool(absl::string_view)> test) {
  const auto has = [&](const std::optional<std::string>& prompt) {
    return prompt && test(*prompt);
  };
  return test(spec.prompt) || has(spec.prompt_2) || has(spec.negative_prompt) ||
         has(spec.negative_prompt_2);
}

bool IsInPrompts(const PictureSpec& spec, const std::string& text) {
  return AnyPrompt(spec, [&](absl::string_view prompt) { return absl::StrContains(prompt, text); });
}

bool IsOfWord(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); }

// True if the text stands in the prompt with no letter and no digit beside it.
bool HasWord(absl::string_view prompt, absl::string_view text) {
  for (size_t at = prompt.find(text); at != absl::string_view::npos;
       at = prompt.find(text, at + 1)) {
    const size_t end = at + text.size();
    const bool begins = at == 0 || !IsOfWord(prompt[at - 1]);
    if (begins && (end == prompt.size() || !IsOfWord(prompt[end]))) return true;
  }
  return false;
}

void WarnOfLostWords(absl::Span<const adapters::LostWord> lost, const Words& words,
                     const PictureSpec& spec, std::vector<std::string>& warnings) {
  for (const adapters::LostWord& word : lost) {
    const auto is_it = [&](const Word& other) { return other.text == word.text; };
    const auto has_it = [&](absl::string_view prompt) { return HasWord(prompt, word.text); };
    if (absl::c_any_of(words, is_it) || !AnyPrompt(spec, has_it)) continue;
    std::string text = absl::StrCat("the word ", word.text, " is read as text: the adapter ",
                                    word.adapter, " cannot be used: ", word.why);
    // Each stage looks.
    if (!absl::c_linear_search(warnings, text)) warnings.push_back(std::move(text));
  }
}

// The preset that the first of the spec's adapters with one brings; null: none does. Notes it with
// the adapter, and warns of other ones.
const Preset* PresetOf(adapters::Catalogue& catalogue, const LoadedModel& model, PictureSpec& spec,
                       std::vector<std::string>& warnings) {
  const Preset* first = nullptr;
  std::string whose;
  for (Adapter& adapter : spec.adapters) {
    if (adapter.unet_factor() == 0) continue;
    const absl::StatusOr<AdapterFacts> facts = catalogue.Find(adapter.name);
    if (!facts.ok()) continue;
    const Preset* preset = FindPreset(facts->preset, model.row().family).value_or(nullptr);
    if (preset == nullptr) continue;
    // The request's scheduler is the refiner's too, which the adapter does not change.
    if (spec.refine) {
      warnings.push_back(absl::StrCat("adapter ", adapter.name, ": its preset ", preset->name,
                                      " does not count with refine: set its fields"));
      continue;
    }
    if (first == nullptr) {
      first = preset;
      whose = adapter.name;
      adapter.preset = std::string(preset->name);
    } else if (preset != first) {
      warnings.push_back(absl::StrCat("adapter ", adapter.name, ": its preset ", preset->name,
                                      " does not count beside ", first->name, " of ", whose,
                                      ", which comes first"));
    }
  }
  return first;
}

// The preset's noise scheduler with its settings, where the request asks for no others. A setting
// is left out where the scheduler that the request names has no such.
schedulers::Overrides WithSettings(const schedulers::Overrides& asked, const Preset& preset,
                                   const LoadedModel& model, std::vector<std::string>& warnings) {
  const auto own = schedulers::OverridesOf(preset.scheduler_config);
  if (!own.ok()) return asked;
  schedulers::Overrides taken = asked;
  if (taken.name.empty()) taken.name = own->name;
  const auto lay = [&](auto setting) {
    if (taken.*setting || !((*own).*setting)) return;
    schedulers::Overrides laid = taken;
    laid.*setting = (*own).*setting;
    if (asked.name.empty() || model.SchedulerWith(laid).ok()) taken = std::move(laid);
  };
  lay(&schedulers::Overrides::timestep_spacing);
  lay(&schedulers::Overrides::prediction_type);
  lay(&schedulers::Overrides::rescale_betas_zero_snr);
  if (own->prediction_type && !taken.prediction_type) {
    warnings.push_back(absl::StrCat("the scheduler ", asked.name, " has no prediction_type ",
                                    *own->prediction_type, ", which an adapter of the preset ",
                                    preset.name, " is made for"));
  }
  // A preset says how its scheduler spreads: by its own settings, or not at all.
  const auto by_file = model.SchedulerWith({});
  const bool spreads = by_file.ok() && by_file->use_karras_sigmas;
  if (asked.name.empty() && spreads && !taken.use_karras_sigmas) {
    taken.use_karras_sigmas = own->use_karras_sigmas.value_or(false);
  }
  return taken;
}

// As FillDefaults, with all of an effort's settings.
void FillFields(const Traits& traits, adapters::Catalogue* catalogue, const LoadedModel* starts,
                const Size* image_size, Plan& plan) {
  if (starts != nullptr && catalogue != nullptr && !plan.spec.output_embeds) {
    plan.preset = PresetOf(*catalogue, *starts, plan.spec, plan.warnings);
  }
  if (plan.preset == nullptr) {
    plan.spec = WithDefaults(std::move(plan.spec), traits, image_size);
    return;
  }
  const bool is_told = starts->configs().embeds_guidance();
  const ModelDefaults defaults = WithPreset(starts->row().defaults, plan.preset, is_told);
  const schedulers::Overrides asked = plan.spec.scheduler;
  plan.spec = WithDefaults(std::move(plan.spec), traits, image_size, &defaults);
  plan.spec.scheduler = WithSettings(asked, *plan.preset, *starts, plan.warnings);
}

// Takes an effort's interval back: without it an image is as good, and later.
void LeaveOutFeatureCache(Plan& plan) {
  std::optional<int>& interval = plan.spec.feature_cache_interval;
  if (interval.value_or(1) == 1) return;
  plan.warnings.push_back(absl::StrCat("effort fast stands for feature_cache_interval ", *interval,
                                       ", for which this server has no graphs (--feature-cache): "
                                       "drawn with 1, which is as good, and slower"));
  interval = 1;
}

}  // namespace

absl::Status ResolveAdapters(adapters::Catalogue* catalogue, const LoadedModel& model,
                             PictureSpec& spec, std::vector<std::string>& warnings) {
  Refusals refusals;
  for (size_t i = 0; i < spec.adapters.size(); ++i) {
    refusals.Add(ResolveOne(catalogue, model, absl::StrCat("adapters[", i, "]"), spec,
                            spec.adapters[i], warnings));
  }
  if (spec.refine && !spec.adapters.empty()) {
    warnings.emplace_back("adapters have no effect on the refiner: they change the base alone");
  }
  return refusals.Join();
}

void FillDefaults(const Traits& traits, adapters::Catalogue* catalogue, const LoadedModel* starts,
                  const Size* image_size, Plan& plan) {
  const bool asks_interval = plan.spec.feature_cache_interval.has_value();
  FillFields(traits, catalogue, starts, image_size, plan);
  if (!asks_interval && !traits.feature_cache) LeaveOutFeatureCache(plan);
}

int PathRanksFor(const LoadedModel& model, const PictureSpec& spec) {
  if (!model.draws()) return 0;
  const int ranks = model.graphs().step_paths().ranks;
  return FitPaths(spec.adapters, ranks) ? ranks : 0;
}

SharedWords WordsFor(adapters::Catalogue* catalogue, const LoadedModel& model,
                     const PictureSpec& spec, std::vector<std::string>& warnings) {
  if (catalogue == nullptr || !model.draws() || !model.graphs().takes_vectors()) return nullptr;
  const std::string& name = model.row().name;
  bool looked = false;
  SharedWords words = catalogue->WordsOf(name);
  for (const Word& word : *words) {
    if (!IsInPrompts(spec, word.text)) continue;
    // One that has become unreadable is none any more.
    catalogue->Find(word.adapter).status().IgnoreError();
    looked = true;
  }
  if (looked) words = catalogue->WordsOf(name);
  WarnOfLostWords(*catalogue->LostWords(), *words, spec, warnings);
  return words->empty() ? nullptr : words;
}

}  // namespace latentd::pipeline
