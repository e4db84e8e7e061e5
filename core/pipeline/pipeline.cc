#include "core/pipeline/pipeline.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/pipeline/plan/adapters.h"
#include "core/pipeline/plan/controls.h"
#include "core/pipeline/plan/embeds.h"
#include "core/pipeline/plan/image_prompts.h"
#include "core/pipeline/plan/init_image.h"
#include "core/pipeline/plan/latents_file.h"
#include "core/pipeline/plan/prompts.h"
#include "core/pipeline/plan/stages.h"
#include "core/pipeline/plan/state_bytes.h"
#include "core/pipeline/plan/video_plan.h"
#include "core/pipeline/units/acquisition.h"
#include "core/pipeline/warnings.h"

namespace latentd::pipeline {
namespace {

// Adds a failed schedule's violations of fields.
void AddViolationsOf(const absl::Status& status, std::vector<FieldViolation>& violations) {
  if (status.ok()) return;
  const std::vector<FieldViolation> fields = GetFieldViolations(status);
  violations.insert(violations.end(), fields.begin(), fields.end());
  if (fields.empty()) violations.push_back({"scheduler", std::string(status.message())});
}

bool HasBatchInvariantSteps(const std::vector<PlannedStage>& stages) {
  return absl::c_all_of(stages, [](const PlannedStage& stage) {
    return stage.model->graphs().has_batch_invariant_steps();
  });
}

// Makes evaluations shallow of models that can.
void PlanFeatureCache(Plan& plan) {
  PlanShallow(plan.spec.feature_cache_interval.value_or(1), plan.stages);
  for (PlannedStage& stage : plan.stages) {
    if (!stage.model->graphs().has_deep_features()) stage.shallow.clear();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Pipeline>> Pipeline::Create(
    ModelTable table, LoadedModels models, const ComponentModes& modes, StepRows rows,
    ReadyPrompts prompts, std::unique_ptr<AdapterSets> adapters) {
  RETURN_IF_ERROR(ServedModels::CheckFit(models));
  return std::unique_ptr<const Pipeline>(new Pipeline(
      std::move(table), std::move(models), modes, std::move(rows), prompts, std::move(adapters)));
}

Pipeline::Pipeline(ModelTable table, LoadedModels models, const ComponentModes& modes,
                   StepRows rows, ReadyPrompts prompts, std::unique_ptr<AdapterSets> adapters)
    : models_(std::move(table), std::move(models), modes, rows.feature_cache),
      needed_(models_, std::move(rows), prompts),
      adapters_(std::move(adapters)),
      book_(models_, adapters_.get()),
      folder_(models_, needed_, adapters_.get()) {}

absl::StatusOr<SharedPlan> Pipeline::Resolve(const PictureSpec& asked, const Inputs& inputs,
                                             ChooseSize choose,
                                             std::vector<FieldViolation> found) const {
  if (asked.video) return ResolveVideo(asked, inputs, choose, std::move(found));
  auto plan = std::make_shared<Plan>();
  plan->spec = asked;
  RETURN_IF_ERROR(ResolveSpec(inputs, std::move(found), *plan));
  ASSIGN_OR_RETURN(plan->executed_size, choose(plan->spec));
  RETURN_IF_ERROR(Complete(asked, *plan));
  return plan;
}

absl::StatusOr<SharedPlan> Pipeline::ResolveVideo(const PictureSpec& asked, const Inputs& inputs,
                                                  ChooseSize choose,
                                                  std::vector<FieldViolation> found) const {
  ASSIGN_OR_RETURN(const LoadedModel* model, models_.FindVideoModel(asked));
  auto plan = std::make_shared<Plan>();
  plan->spec = asked;
  RETURN_IF_ERROR(ResolveVideoSpec(*model, traits(), inputs, std::move(found), *plan));
  ASSIGN_OR_RETURN(plan->executed_size, choose(plan->spec));
  plan->executed_size.frames = *plan->spec.video->num_frames;
  CompleteVideoPlan(*model, RowCountsAt(plan->executed_size), *plan);
  WarnOfVideoGuidance(asked, *plan);
  CheckVideoPreviews(asked, *model, *plan);
  const Size size = plan->executed_size;
  const int side_by_side = SideBySide(*plan);
  const StepShape shape = models_.ShapeOf(size, plan->rows);
  plan->state_bytes =
      VideoRequestBytes(*model, shape, size, *plan->spec.video->decode_chunk_size, side_by_side);
  if (plan->spec.previews_every) {
    plan->state_bytes += side_by_side * VideoPreviewBytes(*model, shape);
  }
  return plan;
}

const ModelRow& Pipeline::StartOf(const PictureSpec& spec) const {
  if (!spec.video) return table().FindOrFirst(spec.model);
  const auto model = models_.FindVideoModel(spec);
  return model.ok() ? table()[(*model)->row().id] : table().first();
}

absl::StatusOr<SharedPlan> Pipeline::Resolve(const PictureSpec& asked, const Inputs& inputs) const {
  return Resolve(asked, inputs, [](const PictureSpec& resolved) {
    return Size{*resolved.width, *resolved.height};
  });
}

absl::Status Pipeline::ResolveSpec(const Inputs& inputs, std::vector<FieldViolation> found,
                                   Plan& plan) const {
  PictureSpec& spec = plan.spec;
  spec.has_image = !inputs.image.empty();
  spec.has_mask = !inputs.mask_image.empty();
  spec.has_latents = !inputs.latents.empty();
  spec.has_prompt_embeds = inputs.prompt.states.has_value();
  spec.has_negative_embeds = inputs.negative.states.has_value();
  std::vector<FieldViolation> violations = FindViolations(spec, traits());
  const auto size = ImageSizeOf(inputs);
  if (!size.ok()) violations.push_back({"image", std::string(size.status().message())});
  const Size* image_size = size.ok() && size->has_value() ? &**size : nullptr;
  CheckMaskFile(inputs, spec, image_size, violations);
  if (spec.padding_mask_crop && image_size != nullptr) plan.whole_size = *image_size;
  AddViolationsOf(CheckBesideEmbeds(spec, inputs), violations);
  // Schedules are made of fields that are right by themselves; the scheduler's name and options are
  // looked at in any case.
  if (!violations.empty()) {
    const LoadedModel* starts = models_.Find(StartOf(spec).id);
    if (starts != nullptr && !spec.output_embeds)
      AddViolationsOf(starts->SchedulerWith(spec.scheduler).status(), violations);
  } else {
    const LoadedModel* starts = models_.Find(StartOf(spec).id);
    adapters::Catalogue* catalogue = adapters_ == nullptr ? nullptr : &adapters_->catalogue();
    FillDefaults(traits(), catalogue, starts, image_size, plan);
    violations = FindViolations(spec, traits());
    if (violations.empty()) {
      const absl::Status resolved = ResolveStages(inputs, plan);
      if (absl::IsFailedPrecondition(resolved)) return resolved;
      AddViolationsOf(resolved, violations);
    }
  }
  violations.insert(violations.end(), found.begin(), found.end());
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

absl::Status Pipeline::ResolveStages(const Inputs& inputs, Plan& plan) const {
  PictureSpec& spec = plan.spec;
  std::vector<FieldViolation> violations;
  const LoadedModel* starts = models_.Find(StartOf(spec).id);
  adapters::Catalogue* catalogue = adapters_ == nullptr ? nullptr : &adapters_->catalogue();
  if (starts != nullptr) {
    const absl::Status adapters = ResolveAdapters(catalogue, *starts, spec, plan.warnings);
    if (!adapters.ok() && !absl::IsInvalidArgument(adapters)) return adapters;
    AddViolationsOf(adapters, violations);
    const absl::Status controls = ResolveControls(catalogue, *starts, inputs, spec, plan.warnings);
    if (!controls.ok() && !absl::IsInvalidArgument(controls)) return controls;
    AddViolationsOf(controls, violations);
    const absl::Status images =
        ResolveImagePrompts(catalogue, *starts, inputs, spec, plan.warnings);
    if (!images.ok() && !absl::IsInvalidArgument(images)) return images;
    AddViolationsOf(images, violations);
  }
  if (!spec.adapters.empty()) plan.loras = AdapterSets::IdOf(spec.adapters);
  plan.adapters = AdaptersIdOf(plan.loras, spec);
  if (starts != nullptr) plan.ranks = PathRanksFor(*starts, spec);
  absl::StatusOr<std::vector<PlannedStage>> stages = MakeStages(models_.ChainOf(spec), spec);
  AddViolationsOf(stages.status(), violations);
  if (stages.ok()) plan.stages = *std::move(stages);
  if (violations.empty() && !spec.controls.empty() && !spec.output_embeds) {
    ASSIGN_OR_RETURN(const size_t evaluations, UncutEvaluations(plan.stages.front(), spec));
    plan.controls = PlanControls(spec, evaluations, plan.stages.front());
  }
  if (violations.empty() && !spec.output_embeds) {
    plan.image_prompts = PlanImagePrompts(*plan.stages.front().model, spec, inputs);
  }
  AddViolationsOf(PlanPrompts(spec, inputs, catalogue, plan.stages, plan.warnings), violations);
  AddViolationsOf(CheckLatents(inputs, plan), violations);
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

absl::Status Pipeline::Complete(const PictureSpec& asked, Plan& plan) const {
  PictureSpec& spec = plan.spec;
  const Size size = {*spec.width, *spec.height}, executed = plan.executed_size;
  if (executed.width < size.width || executed.height < size.height) {
    return absl::InternalError(absl::StrCat("an image of ", SizeText(size),
                                            " is not part of one of ", SizeText(executed)));
  }
  if (spec.has_latents && executed != size) {
    return InvalidFields({{"latents", absl::StrCat("must be of the size that runs, which is ",
                                                   SizeText(executed), ": ask for that")}});
  }
  if (!spec.output_embeds) spec.scheduler.name = SchedulerNameOf(plan.stages);
  plan.latents = models_.LatentsOf(executed);
  plan.image_latents = models_.LatentsOf(size);
  plan.rows = 1;
  for (const PlannedStage& stage : plan.stages) plan.rows = std::max(plan.rows, stage.most_rows());
  PlanRows(*spec.guidance_interval, plan.stages);
  PlanFeatureCache(plan);
  plan.alone = spec.batch_invariant && !HasBatchInvariantSteps(plan.stages);
  plan.units = spec.output_embeds
                   ? std::vector<PlannedUnit>{{UnitKind::kText}}
                   : UnitsFor(plan.stages.size(), spec.has_image, !spec.output_latents);
  needed_.SetGraphs(plan);
  plan.state_bytes = RequestBytes(plan);
  absl::c_move(WarningsOf(asked, plan), std::back_inserter(plan.warnings));
  return absl::OkStatus();
}

int64_t Pipeline::StateBytes(Size bucket, int rows, int chunks, int decode_chunk) const {
  StepShape shape = models_.ShapeOf(bucket, rows);
  shape.chunks = std::max(ready_prompts().chunks, chunks);
  if (needed_.rows().feature_cache) shape.deep = DeepFeatures::kGiven;
  int64_t most = 0;
  for (const ModelId leader : table().Leaders()) {
    const std::vector<const LoadedModel*> group = models_.GroupOf(leader);
    if (group.empty()) continue;
    const ModelRow& row = table()[leader];
    const int frames = decode_chunk > 0 ? decode_chunk : DefaultChunk(row, bucket.frames);
    most = std::max(most, row.draws_videos ? VideoStateBytes(*group.front(), shape, bucket, frames)
                                           : pipeline::StateBytes(group, shape, bucket));
  }
  return most;
}

int Pipeline::SideBySide(const Plan& plan) const {
  return std::min(static_cast<int>(plan.spec.seeds.size()),
                  needed_.MostRows(plan.executed_size, plan.rows) / plan.rows);
}

int64_t Pipeline::RequestBytes(const Plan& plan) const {
  const Size size = plan.executed_size;
  const int side_by_side = SideBySide(plan);
  StepShape shape = models_.ShapeOf(size, plan.rows);
  shape.chunks = plan.chunks();
  // All that could draw in their place: what hands over counts where it is not asked to.
  const std::vector<const LoadedModel*> models =
      models_.GroupOf(LeaderOf(plan.stages.front().model->row().id).id);
  const int64_t blends = BlendBytes(models, shape, plan);
  if (plan.spec.output_embeds) return 2 * EmphasisBytes(models, shape) + blends;
  const int64_t previews = plan.spec.previews_every ? PreviewBytes(models, shape, size) : 0;
  const int64_t emphasis = plan.has_weights() ? EmphasisBytes(models, shape) : 0;
  const int64_t masks =
      plan.spec.has_mask ? MaskBytes(models, shape, size, plan.spec.differential) : 0;
  return pipeline::RequestBytes(models, shape, size, side_by_side) + emphasis + blends +
         side_by_side * (previews + masks) + OverlayBytes(plan) + ControlBytes(plan) +
         ImagePromptBytes(plan);
}

absl::StatusOr<Pipeline::Pictures> Pipeline::Start(SharedPlan plan, SharedInputs inputs,
                                                   compiler::Purpose purpose) const {
  const std::vector<const LoadedModel*> models = models_.ChainOf(plan->spec);
  const bool builds = purpose.mode != compiler::GetMode::kReady;
  ASSIGN_OR_RETURN(GraphBook::Brought brought,
                   book_.BroughtBy(*plan, builds ? IfUnknown::kBuild : IfUnknown::kRefuse));
  auto request = std::make_shared<Request>(std::move(plan), std::move(inputs), models);
  request->stages.front().adapted = std::move(brought.adapted);
  for (Nets::Graphs& graphs : brought.controls) {
    request->controls.emplace_back().graphs = std::move(graphs);
  }
  for (Nets::Graphs& graphs : brought.image_prompts) {
    request->image_prompts.emplace_back().graphs = std::move(graphs);
  }
  RETURN_IF_ERROR(Acquire(purpose, *request));
  Pictures pictures;
  for (size_t i = 0; i < request->spec().seeds.size(); ++i) {
    pictures.push_back(std::make_unique<Picture>(request, i));
  }
  return pictures;
}

std::unique_ptr<const Picture> Pipeline::Sketch(const SharedPlan& plan) const {
  auto request = std::make_shared<Request>(plan, /*inputs=*/nullptr, models_.ChainOf(plan->spec));
  return std::make_unique<const Picture>(std::move(request), /*index=*/0);
}

absl::Status Pipeline::CheckLatents(const Inputs& inputs, const Plan& plan) const {
  if (inputs.latents.empty()) return absl::OkStatus();
  const absl::Status fits = CheckLatentsFile(
      inputs.latents,
      ImageLatentsShape(static_cast<int64_t>(plan.spec.seeds.size()), first().latent_channels(),
                        models_.LatentsOf({*plan.spec.width, *plan.spec.height})));
  if (!absl::IsInvalidArgument(fits)) return fits;
  return InvalidFields({{"latents", std::string(fits.message())}});
}

}  // namespace latentd::pipeline
