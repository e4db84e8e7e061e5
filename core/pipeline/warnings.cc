#include "core/pipeline/warnings.h"

#include <iterator>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/pipeline/picture/latent_colors.h"
#include "core/pipeline/spec/presets.h"
#include "core/pipeline/spec/unused_parameters.h"
#include "core/schedulers/config.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::pipeline {
namespace {

// True where steps are at the timesteps of trailing, or of a named grid that has about the same.
bool IsTrailing(const schedulers::SchedulerConfig& config) {
  using schedulers::NamedGrid;
  if (config.named_grid) {
    return config.named_grid == NamedGrid::kSgmUniform || config.named_grid == NamedGrid::kSimple ||
           config.named_grid == NamedGrid::kTurbo;
  }
  return config.timestep_spacing == schedulers::TimestepSpacing::kTrailing &&
         !config.use_karras_sigmas && !config.use_exponential_sigmas && !config.use_beta_sigmas &&
         !config.use_lu_lambdas;
}

// True where no step is at the last timestep, the only one without signal once betas are rescaled.
bool LeavesOutPureNoise(const schedulers::SchedulerConfig& config) {
  return config.rescale_betas_zero_snr && !config.named_grid &&
         config.timestep_spacing == schedulers::TimestepSpacing::kLeading &&
         config.scheduler->HasField("timestep_spacing");
}

// A sentence for each parameter that has no effect.
std::vector<std::string> UnusedParameters(const PictureSpec& asked, const Plan& plan) {
  const std::set<int> rows = plan.row_counts();
  const bool guided = rows.empty() || rows.contains(plan.rows);
  std::vector<ModelReads> reads;
  for (const PlannedStage& stage : plan.stages) {
    const LoadedModel& model = *stage.model;
    ModelReads& its = reads.emplace_back(model.family().reads(model.configs()));
    its.eta = !plan.spec.output_embeds && stage.scheduler.takes_eta();
    its.guided_steps = guided;
    its.deep_features = model.graphs().has_deep_features();
    its.cached_steps = stage.caches();
    its.previews = plan.wants_tiny_vae() || KnownColors(plan.last_model().vae());
  }
  std::vector<std::string> unused = FindUnusedParameters(asked, plan.spec, reads);
  if (plan.spec.has_negative_embeds && !plan.guided()) {
    unused.emplace_back(
        "negative_prompt_embeds has no effect: it needs a guidance_scale above 1, and a model that "
        "draws with a negative prompt");
  }
  return unused;
}

// A sentence for each value that the plan's models are not made for.
std::vector<std::string> MisusesOf(const Plan& plan) {
  std::vector<std::string> found;
  if (plan.spec.long_prompt == prompts::LongPrompt::kChunk && plan.dropped_tokens() > 0) {
    found.push_back(absl::StrCat("prompts are read up to ", prompts::kMaxChunks,
                                 " chunks of tokens: ", plan.dropped_tokens(),
                                 " tokens behind them are not"));
  }
  if (plan.spec.output_embeds) return found;
  const bool own_schedule = !plan.spec.timesteps.empty() || !plan.spec.sigmas.empty();
  for (const PlannedStage& stage : plan.stages) {
    const bool by_adapter = plan.preset != nullptr && &stage == &plan.stages.front();
    if (const Preset* preset = by_adapter ? plan.preset : stage.model->row().preset) {
      const DrawnBy drawn = {.is_trailing = own_schedule || IsTrailing(stage.scheduler),
                             .is_told_guidance = stage.model->configs().embeds_guidance(),
                             .made = by_adapter ? "an adapter" : "a checkpoint"};
      absl::c_move(FindMisuse(*preset, plan.spec, drawn), std::back_inserter(found));
    } else if (!own_schedule && LeavesOutPureNoise(stage.scheduler)) {
      found.emplace_back(
          "rescale_betas_zero_snr is wasted with timestep_spacing leading: no step begins at pure "
          "noise");
    }
  }
  return found;
}

}  // namespace

std::vector<std::string> WarningsOf(const PictureSpec& asked, const Plan& plan) {
  std::vector<std::string> warnings = UnusedParameters(asked, plan);
  absl::c_move(MisusesOf(plan), std::back_inserter(warnings));
  return warnings;
}

void WarnOfVideoGuidance(const PictureSpec& asked, Plan& plan) {
  const GuidanceInterval all;
  if (asked.guidance_interval.value_or(all) == all) return;
  if (!plan.guided()) {
    plan.warnings.emplace_back(
        "guidance_interval has no effect: it needs a min_guidance_scale or a max_guidance_scale "
        "above 1");
  } else if (!plan.row_counts().contains(plan.rows)) {
    plan.warnings.emplace_back(
        "min_guidance_scale and max_guidance_scale have no effect: guidance_interval has none of "
        "the steps");
  }
}

void CheckVideoPreviews(const PictureSpec& asked, const LoadedModel& model, Plan& plan) {
  if (!asked.previews_every) return;
  const bool has_colors = KnownColors(model.vae()).has_value();
  if (asked.takes_previews && has_colors) return;
  plan.spec.previews_every.reset();
  plan.warnings.push_back(
      absl::StrCat("previews.every_n_steps has no effect: ",
                   has_colors ? "they come while a stream is read"
                              : "the colours of the checkpoint's latents are not known"));
}

}  // namespace latentd::pipeline
