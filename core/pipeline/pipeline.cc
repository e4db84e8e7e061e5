#include "core/pipeline/pipeline.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/image/decode.h"
#include "core/pipeline/acquisition.h"
#include "core/pipeline/conditioning.h"
#include "core/pipeline/state_bytes.h"
#include "core/pipeline/unused_parameters.h"
#include "core/schedulers/config.h"
#include "core/weights/checkpoint_file.h"

namespace latentd::pipeline {
namespace {

using IfUnknown = ModelGraphs::IfUnknown;

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
  ASSIGN_OR_RETURN(const schedulers::SchedulerConfig config, model.SchedulerWith(spec.scheduler));
  ASSIGN_OR_RETURN(schedulers::Schedule schedule,
                   schedulers::MakeSchedule(config, ScheduleRequestOf(spec, takes_over)));
  return Stage{&model, std::move(schedule)};
}

// Adds a failed schedule's violations of fields.
void AddViolationsOf(const absl::Status& status, std::vector<FieldViolation>& violations) {
  if (status.ok()) return;
  const std::vector<FieldViolation> fields = GetFieldViolations(status);
  violations.insert(violations.end(), fields.begin(), fields.end());
  if (fields.empty()) violations.push_back({"scheduler", std::string(status.message())});
}

// The size of the init image, if there is one that can be read.
absl::StatusOr<std::optional<Size>> ImageSizeOf(const PictureSpec& spec) {
  if (spec.image.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(const image::Dimensions size, image::ReadDimensions(spec.image));
  return Size{size.width, size.height};
}

bool HasBatchInvariantSteps(const std::vector<Stage>& stages) {
  return std::all_of(stages.begin(), stages.end(), [](const Stage& stage) {
    return stage.model->graphs().has_batch_invariant_steps();
  });
}

Size ExecutedSize(const PictureSpec& resolved) {
  return resolved.executed_size.value_or(Size{*resolved.width, *resolved.height});
}

int64_t SquaredDistance(const Size& a, const Size& b) {
  const int64_t x = a.width - b.width, y = a.height - b.height;
  return x * x + y * y;
}

// The first of those that are nearest; `own` where there are none.
Size NearestOf(const std::vector<Size>& sizes, const Size& own) {
  const auto nearer = [&](const Size& a, const Size& b) {
    return SquaredDistance(a, own) < SquaredDistance(b, own);
  };
  const auto nearest = std::min_element(sizes.begin(), sizes.end(), nearer);
  return nearest == sizes.end() ? own : *nearest;
}

// The model as it was loaded; null: it was not, since it draws nothing here.
const SdxlModel* LoadedOf(const Pipeline::LoadedModels& models, ModelId id) {
  return models[static_cast<size_t>(id.value)].get();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Pipeline>> Pipeline::Create(ModelTable table,
                                                                 LoadedModels models,
                                                                 const ComponentModes& modes,
                                                                 const std::vector<Size>& buckets,
                                                                 StepRows rows) {
  const SdxlModel& first = *models.front();
  for (const auto& model : models) {
    if (model == nullptr || (DownscaleOf(model->vae()) == DownscaleOf(first.vae()) &&
                             model->latent_channels() == first.latent_channels())) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        model->path(), ": its latents have another shape than those of ", first.path()));
  }
  return std::unique_ptr<const Pipeline>(
      new Pipeline(std::move(table), std::move(models), modes, buckets, std::move(rows)));
}

Pipeline::Pipeline(ModelTable table, LoadedModels models, const ComponentModes& modes,
                   const std::vector<Size>& buckets, StepRows rows)
    : models_(std::move(models)), rows_(std::move(rows)) {
  traits_.default_size = NearestOf(buckets, first().default_size());
  traits_.side_multiple = DownscaleOf(first().vae());
  traits_.max_clip_skip = first().max_clip_skip();
  traits_.models = std::move(table);
  for (const auto& [component, mode] : modes) {
    if (mode == ComponentMode::kOff) traits_.off.insert(component);
  }
  const auto by_default = first().SchedulerWith({});
  if (by_default.ok()) default_scheduler_ = std::string(by_default->name());
}

std::vector<const SdxlModel*> Pipeline::ModelsOf(const PictureSpec& spec) const {
  std::vector<const SdxlModel*> models;
  for (const ModelId id : table().Chain(spec.model, spec.refine)) {
    models.push_back(LoadedOf(models_, id));
  }
  return models;
}

absl::StatusOr<std::vector<Stage>> Pipeline::StagesOf(const PictureSpec& spec) const {
  std::vector<Stage> stages;
  for (const SdxlModel* model : ModelsOf(spec)) {
    ASSIGN_OR_RETURN(Stage stage, MakeStage(*model, spec, /*takes_over=*/!stages.empty()));
    stages.push_back(std::move(stage));
  }
  return stages;
}

absl::StatusOr<PictureSpec> Pipeline::Resolve(PictureSpec spec) const {
  std::vector<FieldViolation> violations = FindViolations(spec, traits_);
  const auto size = ImageSizeOf(spec);
  if (!size.ok()) violations.push_back({"image", std::string(size.status().message())});
  // Schedules are made of fields that are right by themselves; the scheduler's name and options are
  // looked at in any case.
  if (!violations.empty()) {
    const ModelRow* row = table().Find(spec.model);
    const SdxlModel* starts = row == nullptr ? nullptr : LoadedOf(models_, row->id);
    if (starts != nullptr)
      AddViolationsOf(starts->SchedulerWith(spec.scheduler).status(), violations);
    return InvalidFields(violations);
  }
  PictureSpec resolved =
      WithDefaults(std::move(spec), traits_, size->has_value() ? &**size : nullptr);
  violations = FindViolations(resolved, traits_);
  if (violations.empty()) {
    AddViolationsOf(StagesOf(resolved).status(), violations);
    AddViolationsOf(CheckLatents(resolved), violations);
  }
  if (!violations.empty()) return InvalidFields(violations);
  ASSIGN_OR_RETURN(resolved.scheduler.name, SchedulerNameOf(resolved));
  return resolved;
}

absl::StatusOr<std::string> Pipeline::SchedulerNameOf(const PictureSpec& spec) const {
  std::string name;
  for (const SdxlModel* model : ModelsOf(spec)) {
    ASSIGN_OR_RETURN(const schedulers::SchedulerConfig config,
                     model->SchedulerWith(spec.scheduler));
    if (!name.empty() && name != config.name()) return std::string();
    name = std::string(config.name());
  }
  return name;
}

std::vector<const SdxlModel*> Pipeline::Models() const {
  std::vector<const SdxlModel*> models;
  for (const auto& model : models_) {
    if (model != nullptr && model->draws()) models.push_back(model.get());
  }
  return models;
}

bool Pipeline::Draws(ModelId model) const {
  const SdxlModel* loaded = LoadedOf(models_, model);
  return loaded != nullptr && loaded->draws();
}

StepShape Pipeline::ShapeOf(Size size, int rows) const {
  return {rows, size.height / traits_.side_multiple, size.width / traits_.side_multiple};
}

absl::StatusOr<std::vector<GraphHandle>> Pipeline::GraphsOf(Size bucket, int rows,
                                                            IfUnknown unknown) const {
  const StepShape shape = ShapeOf(bucket, rows);
  std::vector<GraphHandle> all;
  for (const SdxlModel* model : Models()) {
    ModelGraphs& graphs = model->graphs();
    all.insert(all.end(), graphs.text().begin(), graphs.text().end());
    all.push_back(graphs.request());
    ASSIGN_OR_RETURN(all.emplace_back(), graphs.Step(shape, unknown));
    ASSIGN_OR_RETURN(all.emplace_back(), graphs.Decode(shape.height, shape.width, unknown));
    if (graphs.has_decode_fallback()) {
      ASSIGN_OR_RETURN(all.emplace_back(),
                       graphs.DecodeFallback(shape.height, shape.width, unknown));
    }
    if (traits_.off.contains("vae_encoder")) continue;
    ASSIGN_OR_RETURN(all.emplace_back(), graphs.Encode(shape.height, shape.width, unknown));
    ASSIGN_OR_RETURN(all.emplace_back(), graphs.Sample(shape.height, shape.width, unknown));
  }
  return all;
}

absl::StatusOr<std::vector<GraphHandle>> Pipeline::PreviewGraphsOf(Size bucket,
                                                                   IfUnknown unknown) const {
  const StepShape shape = ShapeOf(bucket, /*rows=*/1);
  std::vector<GraphHandle> all;
  for (const SdxlModel* model : Models()) {
    if (!model->graphs().has_tiny_vae()) continue;
    ASSIGN_OR_RETURN(all.emplace_back(),
                     model->graphs().Preview(shape.height, shape.width, unknown));
  }
  return all;
}

bool Pipeline::WantsTinyVae(const PictureSpec& resolved) const {
  return resolved.previews_every && WithTinyVae(ModelsOf(resolved)) != nullptr;
}

int Pipeline::MostRows(Size size, int rows) const {
  const std::vector<int> counts = RowCountsAt(size);
  return counts.empty() ? rows : std::max(rows, counts.back());
}

int64_t Pipeline::StateBytes(Size bucket, int rows) const {
  return pipeline::StateBytes(Models(), ShapeOf(bucket, rows), bucket);
}

int64_t Pipeline::RequestBytes(const PictureSpec& resolved) const {
  const Size size = ExecutedSize(resolved);
  const int rows = RowsOf(resolved);
  const int side_by_side =
      std::min(static_cast<int>(resolved.seeds.size()), MostRows(size, rows) / rows);
  const StepShape shape = ShapeOf(size, rows);
  const int64_t previews = resolved.previews_every ? PreviewBytes(Models(), shape, size) : 0;
  return pipeline::RequestBytes(Models(), shape, size, side_by_side) + side_by_side * previews;
}

bool Pipeline::NeedsDecoder(const PictureSpec& resolved) const {
  return NeedsDecoderOf(*ModelsOf(resolved).back(), resolved);
}

LatentSize Pipeline::LatentSizeOf(const PictureSpec& resolved) const {
  return {*resolved.height / traits_.side_multiple, *resolved.width / traits_.side_multiple};
}

absl::StatusOr<Pipeline::Pictures> Pipeline::Start(PictureSpec resolved,
                                                   compiler::Purpose purpose) const {
  ASSIGN_OR_RETURN(Pictures pictures, TryStart(resolved, purpose));
  RETURN_IF_ERROR(TakeLatents(pictures));
  return pictures;
}

absl::StatusOr<Pipeline::Pictures> Pipeline::TryStart(PictureSpec& resolved,
                                                      compiler::Purpose purpose) const {
  auto request = std::make_shared<Request>();
  request->executed_size = ExecutedSize(resolved);
  const Size& executed = request->executed_size;
  if (executed.width < *resolved.width || executed.height < *resolved.height) {
    return absl::InternalError(absl::StrCat("a picture of ",
                                            SizeText(*resolved.width, *resolved.height),
                                            " is not part of one of ", SizeText(executed)));
  }
  ASSIGN_OR_RETURN(request->stages, StagesOf(resolved));
  request->rows = RowsOf(resolved);
  request->has_unguided_steps = HasUnguidedSteps(resolved);
  SetGuided(*resolved.guidance_interval, request->stages);
  request->alone = resolved.batch_invariant && !HasBatchInvariantSteps(request->stages);
  const StepShape shape = ShapeOf(executed, request->rows);
  request->latent_height = shape.height;
  request->latent_width = shape.width;
  request->conditioning.resize(request->stages.size());
  if (resolved.previews_every) request->colors = KnownColors(request->stages.back().model->vae());
  RETURN_IF_ERROR(Acquire(purpose, resolved, RowCountsAt(executed), *request));
  request->spec = std::move(resolved);
  Pictures pictures;
  for (uint64_t seed : request->spec.seeds) {
    pictures.push_back(std::make_unique<Picture>(request, seed));
  }
  return pictures;
}

absl::Status Pipeline::TakeLatents(const Pictures& pictures) const {
  PictureSpec& spec = pictures.front()->request->spec;
  if (spec.latents.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const device::Buffer latents,
                   ReadLatentsFile(spec.latents, static_cast<int64_t>(pictures.size()),
                                   first().latent_channels(), LatentSizeOf(spec)));
  for (size_t i = 0; i < pictures.size(); ++i) {
    const int64_t row = std::min(static_cast<int64_t>(i), latents.shape()[0] - 1);
    pictures[i]->given_latents = latents.Rows(row, row + 1);
  }
  spec.latents = std::string();
  return absl::OkStatus();
}

absl::Status Pipeline::CheckLatents(const PictureSpec& resolved) const {
  if (resolved.latents.empty()) return absl::OkStatus();
  const absl::Status fits =
      CheckLatentsFile(resolved.latents, static_cast<int64_t>(resolved.seeds.size()),
                       first().latent_channels(), LatentSizeOf(resolved));
  if (!absl::IsInvalidArgument(fits)) return fits;
  return InvalidFields({{"latents", std::string(fits.message())}});
}

bool Pipeline::HasGuidedSteps(const PictureSpec& resolved) const {
  absl::StatusOr<std::vector<Stage>> stages = StagesOf(resolved);
  if (!stages.ok()) return true;  // Resolve has made them
  SetGuided(*resolved.guidance_interval, *stages);
  return std::any_of(stages->begin(), stages->end(),
                     [](const Stage& stage) { return stage.guided_begin < stage.guided_end; });
}

std::vector<std::string> Pipeline::UnusedParameters(const PictureSpec& asked,
                                                    const PictureSpec& resolved) const {
  const bool guided = !HasUnguidedSteps(resolved) || HasGuidedSteps(resolved);
  std::vector<ModelReads> reads;
  for (const SdxlModel* model : ModelsOf(resolved)) {
    // Resolve has read it with the same overrides.
    const auto scheduler = model->SchedulerWith(resolved.scheduler);
    reads.push_back({.clip_skip = !model->row().is_refiner,
                     .second_prompts = model->text_encoders().size() == 2,
                     .eta = scheduler.ok() && scheduler->name() == "ddim",
                     .aesthetic_scores = model->requires_aesthetics_score(),
                     .zeros_for_negative = model->force_zeros_for_empty_prompt(),
                     .guided_steps = guided});
  }
  return FindUnusedParameters(asked, resolved, reads);
}

std::vector<std::shared_ptr<const weights::WatchedFile>> Pipeline::CheckpointFiles() const {
  std::vector<std::shared_ptr<const weights::WatchedFile>> files;
  for (const auto& model : models_) {
    if (model == nullptr) continue;
    for (const auto& file : model->files_read()) files.push_back(file);
  }
  for (const SdxlModel* model : Models()) {
    for (auto& file : model->graphs().weights().Files()) files.push_back(std::move(file));
  }
  return files;
}

int64_t Pipeline::DroppedTokens(const PictureSpec& spec) const {
  int64_t most = 0;
  for (const SdxlModel* model : ModelsOf(spec)) {
    most = std::max(most, pipeline::DroppedTokens(*model, spec));
  }
  return most;
}

}  // namespace latentd::pipeline
