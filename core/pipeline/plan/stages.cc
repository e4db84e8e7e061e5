#include "core/pipeline/plan/stages.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/pipeline/spec/request/limits.h"
#include "core/pipeline/spec/validation.h"
#include "core/schedulers/schedule.h"

namespace latentd::pipeline {
namespace {

schedulers::ScheduleRequest ScheduleRequestOf(const PictureSpec& spec, bool takes_over) {
  schedulers::ScheduleRequest request;
  request.num_inference_steps = StepsOf(spec);
  request.timesteps = spec.timesteps;
  request.sigmas = spec.sigmas;
  request.eta = spec.eta.value_or(0);
  if (takes_over) {
    request.denoising_start = spec.denoising_end;
    return request;
  }
  if (spec.has_image && !spec.denoising_start) request.strength = spec.strength;
  request.denoising_start = spec.denoising_start;
  request.denoising_end = spec.denoising_end;
  return request;
}

absl::StatusOr<PlannedStage> MakeStage(const LoadedModel& model, const PictureSpec& spec,
                                       bool takes_over) {
  PlannedStage stage{.model = &model};
  ASSIGN_OR_RETURN(stage.scheduler, model.SchedulerWith(spec.scheduler));
  ASSIGN_OR_RETURN(stage.schedule,
                   schedulers::MakeSchedule(stage.scheduler, ScheduleRequestOf(spec, takes_over)));
  if (stage.schedule.steps.size() > size_t{kMaxEvaluations}) {
    return InvalidFields(
        {{"num_inference_steps", absl::StrCat("so many steps make ", stage.schedule.steps.size(),
                                              " evaluations with ", stage.scheduler.full_name(),
                                              "; at most ", kMaxEvaluations, " are possible")}});
  }
  return stage;
}

}  // namespace

absl::StatusOr<std::vector<PlannedStage>> MakeStages(absl::Span<const LoadedModel* const> models,
                                                     const PictureSpec& spec) {
  std::vector<PlannedStage> stages;
  int steps = 0;
  for (const LoadedModel* model : models) {
    if (spec.output_embeds) return std::vector<PlannedStage>{{.model = model}};
    ASSIGN_OR_RETURN(PlannedStage stage, MakeStage(*model, spec, /*takes_over=*/!stages.empty()));
    stage.first_step = steps;
    steps += stage.schedule.denoising_steps();
    stages.push_back(std::move(stage));
  }
  return stages;
}

absl::StatusOr<size_t> UncutEvaluations(const PlannedStage& stage, const PictureSpec& spec) {
  schedulers::ScheduleRequest request = ScheduleRequestOf(spec, /*takes_over=*/false);
  request.denoising_end.reset();
  ASSIGN_OR_RETURN(const schedulers::Schedule schedule,
                   schedulers::MakeSchedule(stage.scheduler, request));
  return schedule.steps.size();
}

std::string SchedulerNameOf(const std::vector<PlannedStage>& stages) {
  const std::string name = stages.front().scheduler.full_name();
  const bool one = absl::c_all_of(
      stages, [&name](const PlannedStage& stage) { return stage.scheduler.full_name() == name; });
  return one ? name : std::string();
}

}  // namespace latentd::pipeline
