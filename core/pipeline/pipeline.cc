#include "core/pipeline/pipeline.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/image/decode.h"
#include "core/pipeline/units.h"
#include "core/schedulers/config.h"

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
  if (!spec.image.empty() && !spec.denoising_start) request.strength = spec.strength;
  request.denoising_start = spec.denoising_start;
  request.denoising_end = spec.denoising_end;
  return request;
}

absl::StatusOr<Stage> MakeStage(const SdxlModel& model, const PictureSpec& spec, bool takes_over) {
  ASSIGN_OR_RETURN(const schedulers::SchedulerConfig config,
                   schedulers::ParseSchedulerConfig(model.scheduler_json(), spec.scheduler));
  ASSIGN_OR_RETURN(schedulers::Schedule schedule,
                   schedulers::MakeSchedule(config, ScheduleRequestOf(spec, takes_over)));
  return Stage{model.which(), &model, std::move(schedule)};
}

// What a failed schedule says about fields.
std::vector<FieldViolation> ViolationsOf(const absl::Status& status) {
  if (status.ok()) return {};
  std::vector<FieldViolation> violations = GetFieldViolations(status);
  if (violations.empty()) violations.push_back({"scheduler", std::string(status.message())});
  return violations;
}

// The size of the init image, if there is one that can be read.
absl::StatusOr<std::optional<Size>> ImageSizeOf(const PictureSpec& spec) {
  if (spec.image.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(const image::Dimensions size, image::ReadDimensions(spec.image));
  return Size{size.width, size.height};
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Pipeline>> Pipeline::Create(
    std::unique_ptr<const SdxlModel> base, std::unique_ptr<const SdxlModel> refiner) {
  if (refiner && (DownscaleOf(refiner->vae()) != DownscaleOf(base->vae()) ||
                  refiner->latent_channels() != base->latent_channels())) {
    return absl::InvalidArgumentError(absl::StrCat(
        refiner->path(), ": its latents have another shape than those of ", base->path()));
  }
  return std::unique_ptr<const Pipeline>(new Pipeline(std::move(base), std::move(refiner)));
}

Pipeline::Pipeline(std::unique_ptr<const SdxlModel> base, std::unique_ptr<const SdxlModel> refiner)
    : base_(std::move(base)), refiner_(std::move(refiner)) {
  traits_.default_size = base_->default_size();
  traits_.side_multiple = DownscaleOf(base_->vae());
  traits_.max_clip_skip = base_->max_clip_skip();
  traits_.has_refiner = refiner_ != nullptr;
  // SdxlModel::Load has read it once.
  default_scheduler_ =
      std::string(schedulers::ParseSchedulerConfig(base_->scheduler_json())->name());
}

std::vector<const SdxlModel*> Pipeline::ModelsOf(const PictureSpec& spec) const {
  if (spec.model == Model::kRefiner) return {refiner_.get()};
  if (spec.refine) return {base_.get(), refiner_.get()};
  return {base_.get()};
}

absl::StatusOr<std::vector<Stage>> Pipeline::StagesOf(const PictureSpec& spec) const {
  std::vector<Stage> stages;
  for (const SdxlModel* model : ModelsOf(spec)) {
    ASSIGN_OR_RETURN(Stage stage, MakeStage(*model, spec, /*takes_over=*/!stages.empty()));
    stages.push_back(std::move(stage));
  }
  return stages;
}

std::vector<FieldViolation> Pipeline::Validate(const PictureSpec& spec) const {
  std::vector<FieldViolation> violations = FindViolations(spec, traits_);
  const auto size = ImageSizeOf(spec);
  if (!size.ok()) violations.push_back({"image", std::string(size.status().message())});
  // Schedules are made of fields that are right by themselves; the scheduler's name and options are
  // looked at in any case.
  if (!violations.empty()) {
    const auto more = ViolationsOf(
        schedulers::ParseSchedulerConfig(base_->scheduler_json(), spec.scheduler).status());
    violations.insert(violations.end(), more.begin(), more.end());
    return violations;
  }
  const PictureSpec resolved = WithDefaults(spec, traits_, size->has_value() ? &**size : nullptr);
  if (auto more = FindViolations(resolved, traits_); !more.empty()) return more;
  return ViolationsOf(StagesOf(resolved).status());
}

absl::StatusOr<PictureSpec> Pipeline::Resolve(PictureSpec spec) const {
  if (const auto violations = Validate(spec); !violations.empty()) {
    return InvalidFields(violations);
  }
  ASSIGN_OR_RETURN(const std::optional<Size> size, ImageSizeOf(spec));
  PictureSpec resolved = WithDefaults(std::move(spec), traits_, size ? &*size : nullptr);
  ASSIGN_OR_RETURN(resolved.scheduler.name, SchedulerNameOf(resolved));
  return resolved;
}

absl::StatusOr<std::string> Pipeline::SchedulerNameOf(const PictureSpec& spec) const {
  std::string name;
  for (const SdxlModel* model : ModelsOf(spec)) {
    ASSIGN_OR_RETURN(const schedulers::SchedulerConfig config,
                     schedulers::ParseSchedulerConfig(model->scheduler_json(), spec.scheduler));
    if (!name.empty() && name != config.name()) return std::string();
    name = std::string(config.name());
  }
  return name;
}

absl::StatusOr<std::vector<std::unique_ptr<Picture>>> Pipeline::Start(PictureSpec resolved) const {
  auto request = std::make_shared<Request>();
  ASSIGN_OR_RETURN(request->stages, StagesOf(resolved));
  request->rows = UsesGuidance(resolved) ? 2 : 1;
  request->latent_height = *resolved.height / traits_.side_multiple;
  request->latent_width = *resolved.width / traits_.side_multiple;
  request->conditioning.resize(request->stages.size());
  request->spec = std::move(resolved);
  std::vector<std::unique_ptr<Picture>> pictures;
  for (uint64_t seed : request->spec.seeds) {
    pictures.push_back(std::make_unique<Picture>(request, seed));
  }
  return pictures;
}

absl::Status Pipeline::Run(Picture& picture) const {
  switch (picture.next) {
    case UnitKind::kText:
      return RunText(picture);
    case UnitKind::kEncode:
      return RunEncode(picture);
    case UnitKind::kStep:
      return RunStep(picture);
    case UnitKind::kDecode:
      return RunDecode(picture);
    case UnitKind::kDone:
      break;
  }
  return absl::FailedPreconditionError("the picture is finished");
}

int64_t Pipeline::DroppedTokens(const PictureSpec& spec) const {
  int64_t most = 0;
  for (const SdxlModel* model : ModelsOf(spec)) {
    most = std::max(most, pipeline::DroppedTokens(*model, spec));
  }
  return most;
}

}  // namespace latentd::pipeline
