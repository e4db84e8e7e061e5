#include "core/pipeline/pipeline.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/families/families.h"
#include "core/families/family/clip_text.h"
#include "core/pipeline/plan/adapters.h"
#include "core/pipeline/plan/controls.h"
#include "core/pipeline/plan/embeds.h"
#include "core/pipeline/plan/image_prompts.h"
#include "core/pipeline/plan/init_image.h"
#include "core/pipeline/plan/prompts.h"
#include "core/pipeline/plan/state_bytes.h"
#include "core/pipeline/plan/video_plan.h"
#include "core/pipeline/spec/limits.h"
#include "core/pipeline/spec/presets.h"
#include "core/pipeline/spec/unused_parameters.h"
#include "core/pipeline/units/acquisition.h"
#include "core/schedulers/config.h"
#include "core/schedulers/methods/scheduler.h"
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
  if (spec.has_image && !spec.denoising_start) request.strength = spec.strength;
  request.denoising_start = spec.denoising_start;
  request.denoising_end = spec.denoising_end;
  return request;
}

// Evaluations of the first stage's schedule before denoising_end cuts it, which is as diffusers
// counts those of control networks.
absl::StatusOr<size_t> UncutEvaluations(const PlannedStage& stage, const PictureSpec& spec) {
  schedulers::ScheduleRequest request = ScheduleRequestOf(spec, /*takes_over=*/false);
  request.denoising_end.reset();
  ASSIGN_OR_RETURN(const schedulers::Schedule schedule,
                   schedulers::MakeSchedule(stage.scheduler, request));
  return schedule.steps.size();
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

// The name of the stages' scheduler with the grid behind it; empty where the models each keep
// another one.
std::string SchedulerNameOf(const std::vector<PlannedStage>& stages) {
  const std::string name = stages.front().scheduler.full_name();
  const bool one = absl::c_all_of(
      stages, [&name](const PlannedStage& stage) { return stage.scheduler.full_name() == name; });
  return one ? name : std::string();
}

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

// The last model with a tiny VAE, of those that draw the images, in order: an ensemble's share
// their latents. Null: none has.
const LoadedModel* WithTinyVae(const std::vector<PlannedStage>& stages) {
  const LoadedModel* last = nullptr;
  for (const PlannedStage& stage : stages) {
    if (stage.model->graphs().has_tiny_vae()) last = stage.model;
  }
  return last;
}

// Distance of their sides, squared, and of their frames, where sides are as near.
std::pair<int64_t, int> DistanceOf(const Size& a, const Size& b) {
  const int64_t x = a.width - b.width, y = a.height - b.height;
  return {x * x + y * y, std::abs(a.frames - b.frames)};
}

// The first of those that are nearest; `own` where there are none.
Size NearestOf(const std::vector<Size>& sizes, const Size& own) {
  const auto nearer = [&](const Size& a, const Size& b) {
    return DistanceOf(a, own) < DistanceOf(b, own);
  };
  const auto nearest = std::min_element(sizes.begin(), sizes.end(), nearer);
  return nearest == sizes.end() ? own : *nearest;
}

// Adds those that are not in `all`.
void AddOnce(const std::vector<PlannedGraph>& more, std::vector<PlannedGraph>& all) {
  for (const PlannedGraph& graph : more) {
    if (!absl::c_linear_search(all, graph)) all.push_back(graph);
  }
}

// The model as it was loaded; null: it was not, since it draws nothing here.
const LoadedModel* LoadedOf(const Pipeline::LoadedModels& models, ModelId id) {
  return models[static_cast<size_t>(id.value)].get();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Pipeline>> Pipeline::Create(
    ModelTable table, LoadedModels models, const ComponentModes& modes, StepRows rows,
    ReadyPrompts prompts, std::unique_ptr<AdapterSets> adapters) {
  const LoadedModel& first = *models.front();
  for (const auto& model : models) {
    if (model == nullptr || (DownscaleOf(model->vae()) == DownscaleOf(first.vae()) &&
                             model->latent_channels() == first.latent_channels())) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        model->path(), ": its latents have another shape than those of ", first.path()));
  }
  return std::unique_ptr<const Pipeline>(new Pipeline(
      std::move(table), std::move(models), modes, std::move(rows), prompts, std::move(adapters)));
}

Pipeline::Pipeline(ModelTable table, LoadedModels models, const ComponentModes& modes,
                   StepRows rows, ReadyPrompts prompts, std::unique_ptr<AdapterSets> adapters)
    : models_(std::move(models)),
      rows_(std::move(rows)),
      ready_prompts_(prompts),
      adapters_(std::move(adapters)) {
  traits_.side_multiple = DownscaleOf(first().vae());
  traits_.models = std::move(table);
  traits_.feature_cache = rows_.feature_cache;
  for (const auto& model : models_) {
    if (model == nullptr) continue;
    ModelRow& row = traits_.models[model->row().id];
    // A refiner's images are those of its leader.
    const LoadedModel& leads = *LoadedOf(models_, row.leader);
    row.default_size = NearestOf(traits_.models[row.leader].buckets, leads.default_size());
    const auto by_default = model->SchedulerWith({});
    if (by_default.ok()) row.default_scheduler = by_default->full_name();
    row.max_clip_skip = leads.family().max_clip_skip(leads.configs());
  }
  for (const auto& [component, mode] : modes) {
    if (mode == ComponentMode::kOff) traits_.off.insert(component);
  }
}

std::vector<const LoadedModel*> Pipeline::ModelsOf(const PictureSpec& spec) const {
  std::vector<const LoadedModel*> models;
  for (const ModelId id : table().Chain(spec.model, spec.refine)) {
    models.push_back(LoadedOf(models_, id));
  }
  return models;
}

absl::StatusOr<std::vector<PlannedStage>> Pipeline::StagesOf(const PictureSpec& spec) const {
  std::vector<PlannedStage> stages;
  int steps = 0;
  for (const LoadedModel* model : ModelsOf(spec)) {
    if (spec.output_embeds) return std::vector<PlannedStage>{{.model = model}};
    ASSIGN_OR_RETURN(PlannedStage stage, MakeStage(*model, spec, /*takes_over=*/!stages.empty()));
    stage.first_step = steps;
    steps += stage.schedule.denoising_steps();
    stages.push_back(std::move(stage));
  }
  return stages;
}

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
  std::vector<FieldViolation> violations = FindViolations(spec, traits_);
  const auto size = ImageSizeOf(inputs);
  if (!size.ok()) violations.push_back({"image", std::string(size.status().message())});
  const Size* image_size = size.ok() && size->has_value() ? &**size : nullptr;
  CheckMaskFile(inputs, spec, image_size, violations);
  if (spec.padding_mask_crop && image_size != nullptr) plan.whole_size = *image_size;
  AddViolationsOf(CheckBesideEmbeds(spec, inputs), violations);
  // Schedules are made of fields that are right by themselves; the scheduler's name and options are
  // looked at in any case.
  if (!violations.empty()) {
    const LoadedModel* starts = LoadedOf(models_, table().FindOrFirst(spec.model).id);
    if (starts != nullptr && !spec.output_embeds)
      AddViolationsOf(starts->SchedulerWith(spec.scheduler).status(), violations);
  } else {
    const LoadedModel* starts = LoadedOf(models_, table().FindOrFirst(spec.model).id);
    adapters::Catalogue* catalogue = adapters_ == nullptr ? nullptr : &adapters_->catalogue();
    FillDefaults(traits_, catalogue, starts, image_size, plan);
    violations = FindViolations(spec, traits_);
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
  const LoadedModel* starts = LoadedOf(models_, table().FindOrFirst(spec.model).id);
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
  absl::StatusOr<std::vector<PlannedStage>> stages = StagesOf(spec);
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
  plan.latents = LatentsOf(executed);
  plan.image_latents = LatentsOf(size);
  plan.rows = 1;
  for (const PlannedStage& stage : plan.stages) plan.rows = std::max(plan.rows, stage.most_rows());
  PlanRows(*spec.guidance_interval, plan.stages);
  PlanFeatureCache(plan);
  plan.alone = spec.batch_invariant && !HasBatchInvariantSteps(plan.stages);
  plan.units = spec.output_embeds
                   ? std::vector<PlannedUnit>{{UnitKind::kText}}
                   : UnitsFor(plan.stages.size(), spec.has_image, !spec.output_latents);
  PlanGraphs(plan);
  plan.state_bytes = RequestBytes(plan);
  absl::c_move(UnusedParameters(asked, plan), std::back_inserter(plan.warnings));
  absl::c_move(Misuses(plan), std::back_inserter(plan.warnings));
  return absl::OkStatus();
}

LatentSize Pipeline::LatentsOf(Size size) const {
  return {size.height / traits_.side_multiple, size.width / traits_.side_multiple};
}

void Pipeline::PlanGraphs(Plan& plan) const {
  const StepShape shape = ShapeOf(plan.executed_size, plan.rows);
  GraphNeeds needs{.height = shape.height,
                   .width = shape.width,
                   .rows = {plan.rows},
                   .ranks = plan.ranks,
                   .controlled = !plan.controls.empty(),
                   .image_tokens = plan.image_tokens(),
                   .image = plan.spec.has_image,
                   .steps = !plan.spec.output_embeds,
                   .decoded = !plan.spec.output_latents && !plan.spec.output_embeds};
  for (const PlannedStage& stage : plan.stages) {
    needs.models.push_back(stage.model);
    needs.chunks.push_back(stage.chunks());
    needs.text.push_back(stage.reads_text());
    needs.takes_vectors.push_back(stage.takes_vectors());
    needs.blends.push_back(stage.blends() > 0);
    needs.caches.push_back(stage.caches());
  }
  if (plan.may_end_guidance()) needs.rows.push_back(1);
  plan.graphs = GraphsFor(needs);
  if (!needs.steps) return;
  AddControlGraphs(shape, needs.rows, plan);
  AddImagePromptGraphs(plan);
  AddSharedSteps(shape, plan);
  AddSplitSteps(shape, plan);
  const LoadedModel* tiny = plan.spec.previews_every ? WithTinyVae(plan.stages) : nullptr;
  if (tiny == nullptr) return;
  plan.dispensable.push_back(
      {tiny->row().id, {GraphKind::kPreview, {1, shape.height, shape.width}}});
}

std::vector<const LoadedModel*> Pipeline::Models() const {
  std::vector<const LoadedModel*> models;
  for (const auto& model : models_) {
    if (model != nullptr && model->draws()) models.push_back(model.get());
  }
  return models;
}

bool Pipeline::Draws(ModelId model) const {
  const LoadedModel* loaded = LoadedOf(models_, model);
  return loaded != nullptr && loaded->draws();
}

std::vector<const LoadedModel*> Pipeline::GroupOf(ModelId leader) const {
  std::vector<const LoadedModel*> group;
  for (const LoadedModel* model : Models()) {
    if (table()[model->row().id].leader == leader) group.push_back(model);
  }
  return group;
}

std::vector<Size> Pipeline::BucketsOf(ModelId leader) const {
  const ModelRow& row = table()[leader];
  if (!row.buckets.empty()) return row.buckets;
  return families::DefaultBuckets(LoadedOf(models_, leader)->family(), row.default_size);
}

StepShape Pipeline::ShapeOf(Size size, int rows) const {
  return {.rows = rows,
          .height = size.height / traits_.side_multiple,
          .width = size.width / traits_.side_multiple,
          .frames = size.frames};
}

absl::StatusOr<std::vector<GraphHandle>> Pipeline::GraphsOf(ModelId leader, Size bucket, int rows,
                                                            IfUnknown unknown) const {
  const StepShape shape = ShapeOf(bucket, rows);
  std::vector<GraphHandle> all;
  for (const LoadedModel* model : GroupOf(leader)) {
    std::vector<PlannedGraph> graphs;
    const bool videos = model->row().draws_videos;
    if (videos) graphs = VideoGraphs(*model, shape, DefaultChunk(model->row(), bucket.frames));
    for (int chunks = 1; !videos && chunks <= ready_prompts_.chunks; ++chunks) {
      GraphNeeds needs = {.models = {model},
                          .chunks = {chunks},
                          .blends = {ready_prompts_.blends},
                          .height = shape.height,
                          .width = shape.width,
                          .rows = {rows},
                          .image = model->graphs().has_encoder()};
      AddOnce(GraphsFor(needs), graphs);
      needs.ranks = model->row().id == leader ? model->graphs().step_paths().ranks : 0;
      AddOnce(GraphsFor(needs), graphs);
      if (!model->graphs().takes_vectors()) continue;
      needs.takes_vectors = {true};
      AddOnce(GraphsFor(needs), graphs);
    }
    // Last: every other image is drawn without them.
    for (int chunks = 1; !videos && chunks <= ready_prompts_.chunks; ++chunks) {
      AddCachingSteps(*model, chunks, shape, leader, graphs);
    }
    ASSIGN_OR_RETURN(const std::vector<GraphHandle> handles, HandlesOf(graphs, unknown));
    all.insert(all.end(), handles.begin(), handles.end());
  }
  return all;
}

absl::StatusOr<std::vector<GraphHandle>> Pipeline::PreviewGraphsOf(ModelId leader, Size bucket,
                                                                   IfUnknown unknown) const {
  std::vector<PlannedGraph> graphs;
  for (const LoadedModel* model : GroupOf(leader)) {
    if (!model->graphs().has_tiny_vae()) continue;
    graphs.push_back({model->row().id, {GraphKind::kPreview, ShapeOf(bucket, /*rows=*/1)}});
  }
  return HandlesOf(graphs, unknown);
}

int Pipeline::MostRows(Size size, int rows) const {
  const std::vector<int> counts = RowCountsAt(size);
  return counts.empty() ? rows : std::max(rows, counts.back());
}

int64_t Pipeline::StateBytes(Size bucket, int rows, int chunks) const {
  StepShape shape = ShapeOf(bucket, rows);
  shape.chunks = std::max(ready_prompts_.chunks, chunks);
  if (rows_.feature_cache) shape.deep = DeepFeatures::kGiven;
  int64_t most = 0;
  for (const ModelId leader : table().Leaders()) {
    const std::vector<const LoadedModel*> group = GroupOf(leader);
    if (group.empty()) continue;
    most =
        std::max(most, table()[leader].draws_videos ? VideoStateBytes(*group.front(), shape, bucket)
                                                    : pipeline::StateBytes(group, shape, bucket));
  }
  return most;
}

int64_t Pipeline::RequestBytes(const Plan& plan) const {
  const Size size = plan.executed_size;
  const int side_by_side =
      std::min(static_cast<int>(plan.spec.seeds.size()), MostRows(size, plan.rows) / plan.rows);
  StepShape shape = ShapeOf(size, plan.rows);
  shape.chunks = plan.chunks();
  // All that could draw in their place: what hands over counts where it is not asked to.
  const std::vector<const LoadedModel*> models =
      GroupOf(LeaderOf(plan.stages.front().model->row().id).id);
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
  const std::vector<const LoadedModel*> models = ModelsOf(plan->spec);
  const bool builds = purpose.mode != compiler::GetMode::kReady;
  ASSIGN_OR_RETURN(BroughtGraphs brought,
                   BroughtBy(*plan, builds ? IfUnknown::kBuild : IfUnknown::kRefuse));
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
  auto request = std::make_shared<Request>(plan, /*inputs=*/nullptr, ModelsOf(plan->spec));
  return std::make_unique<const Picture>(std::move(request), /*index=*/0);
}

absl::Status Pipeline::CheckLatents(const Inputs& inputs, const Plan& plan) const {
  if (inputs.latents.empty()) return absl::OkStatus();
  const absl::Status fits =
      CheckLatentsFile(inputs.latents, static_cast<int64_t>(plan.spec.seeds.size()),
                       first().latent_channels(), LatentsOf({*plan.spec.width, *plan.spec.height}));
  if (!absl::IsInvalidArgument(fits)) return fits;
  return InvalidFields({{"latents", std::string(fits.message())}});
}

std::vector<std::string> Pipeline::UnusedParameters(const PictureSpec& asked,
                                                    const Plan& plan) const {
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

std::vector<std::string> Pipeline::Misuses(const Plan& plan) {
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

std::vector<std::shared_ptr<const weights::WatchedFile>> Pipeline::CheckpointFiles() const {
  std::vector<std::shared_ptr<const weights::WatchedFile>> files;
  for (const auto& model : models_) {
    if (model == nullptr) continue;
    for (const auto& file : model->files_read()) files.push_back(file);
  }
  for (const LoadedModel* model : Models()) {
    for (auto& file : model->graphs().weights().Files()) files.push_back(std::move(file));
  }
  return files;
}

}  // namespace latentd::pipeline
