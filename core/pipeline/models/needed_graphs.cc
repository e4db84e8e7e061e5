#include "core/pipeline/models/needed_graphs.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "core/pipeline/plan/controls.h"
#include "core/pipeline/plan/image_prompts.h"
#include "core/pipeline/plan/video_plan.h"

namespace latentd::pipeline {
namespace {

// The last model with a tiny VAE, of those that draw the images, in order: an ensemble's share
// their latents. Null: none has.
const LoadedModel* WithTinyVae(const std::vector<PlannedStage>& stages) {
  const LoadedModel* last = nullptr;
  for (const PlannedStage& stage : stages) {
    if (stage.model->graphs().has_tiny_vae()) last = stage.model;
  }
  return last;
}

// Adds those that are not in `all`.
void AddOnce(const std::vector<PlannedGraph>& more, std::vector<PlannedGraph>& all) {
  for (const PlannedGraph& graph : more) {
    if (!absl::c_linear_search(all, graph)) all.push_back(graph);
  }
}

// Graphs for prompts of so many chunks; nothing where the model's steps cannot be split.
std::vector<PlannedGraph> SplitStepOf(const LoadedModel& model, const StepShape& shape,
                                      int chunks) {
  const bool reference = model.graphs().reference() != nullptr;
  if (reference || model.configs().inpaints() || model.row().draws_videos) return {};
  const ModelId id = model.row().id;
  return {{id,
           {GraphKind::kNetwork,
            {.rows = 1, .height = shape.height, .width = shape.width, .chunks = chunks}}},
          {id, {GraphKind::kAdvance, {.rows = 2, .height = shape.height, .width = shape.width}}}};
}

}  // namespace

NeededGraphs::NeededGraphs(const ServedModels& models, StepRows rows, ReadyPrompts prompts)
    : models_(models), rows_(std::move(rows)), ready_prompts_(prompts) {}

int NeededGraphs::MostRows(Size size, int rows) const {
  const std::vector<int> counts = rows_.At(size);
  return counts.empty() ? rows : std::max(rows, counts.back());
}

void NeededGraphs::SetGraphs(Plan& plan) const {
  const StepShape shape = models_.ShapeOf(plan.executed_size, plan.rows);
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

std::vector<PlannedGraph> NeededGraphs::OfImages(const LoadedModel& model, StepShape shape,
                                                 ModelId leader) const {
  std::vector<PlannedGraph> graphs;
  for (int chunks = 1; chunks <= ready_prompts_.chunks; ++chunks) {
    GraphNeeds needs = {.models = {&model},
                        .chunks = {chunks},
                        .blends = {ready_prompts_.blends},
                        .height = shape.height,
                        .width = shape.width,
                        .rows = {shape.rows},
                        .image = model.graphs().has_encoder()};
    AddOnce(GraphsFor(needs), graphs);
    needs.ranks = model.row().id == leader ? model.graphs().step_paths().ranks : 0;
    AddOnce(GraphsFor(needs), graphs);
    if (!model.graphs().takes_vectors()) continue;
    needs.takes_vectors = {true};
    AddOnce(GraphsFor(needs), graphs);
  }
  // Last: every other image is drawn without them.
  for (int chunks = 1; chunks <= ready_prompts_.chunks; ++chunks) {
    AddCachingSteps(model, chunks, shape, leader, graphs);
  }
  return graphs;
}

std::vector<PlannedGraph> NeededGraphs::OfBucket(ModelId leader, Size bucket, int rows) const {
  const StepShape shape = models_.ShapeOf(bucket, rows);
  std::vector<PlannedGraph> all;
  for (const LoadedModel* model : models_.GroupOf(leader)) {
    const ModelRow& row = model->row();
    absl::c_move(row.draws_videos ? VideoGraphs(*model, shape, DefaultChunk(row, bucket.frames))
                                  : OfImages(*model, shape, leader),
                 std::back_inserter(all));
  }
  return all;
}

std::vector<PlannedGraph> NeededGraphs::PreviewsOf(ModelId leader, Size bucket) const {
  std::vector<PlannedGraph> graphs;
  for (const LoadedModel* model : models_.GroupOf(leader)) {
    if (!model->graphs().has_tiny_vae()) continue;
    graphs.push_back({model->row().id, {GraphKind::kPreview, models_.ShapeOf(bucket, /*rows=*/1)}});
  }
  return graphs;
}

std::vector<PlannedGraph> NeededGraphs::SplitStepsOf(ModelId leader, Size bucket) const {
  std::vector<PlannedGraph> graphs;
  if (!rows_.split) return graphs;
  const StepShape shape = models_.ShapeOf(bucket, /*rows=*/2);
  for (const LoadedModel* model : models_.GroupOf(leader)) {
    for (int chunks = 1; chunks <= ready_prompts_.chunks; ++chunks) {
      absl::c_move(SplitStepOf(*model, shape, chunks), std::back_inserter(graphs));
    }
  }
  return graphs;
}

void NeededGraphs::AddSharedSteps(const StepShape& shape, Plan& plan) const {
  for (const PlannedStage& stage : plan.stages) {
    const bool is_first = &stage == &plan.stages.front();
    GraphName step = {.shape = {.height = shape.height,
                                .width = shape.width,
                                .chunks = stage.chunks(),
                                .ranks = is_first ? plan.ranks : 0,
                                .image_tokens = is_first ? plan.image_tokens() : ImageTokens()},
                      .controlled = is_first && !plan.controls.empty()};
    for (int rows : rows_.At(plan.executed_size)) {
      if (rows <= plan.rows || plan.alone) continue;
      step.shape.rows = rows;
      for (const DeepFeatures deep : DepthsOf(stage.caches())) {
        step.shape.deep = deep;
        plan.dispensable.push_back({stage.model->row().id, step});
      }
    }
  }
}

void NeededGraphs::AddCachingSteps(const LoadedModel& model, int chunks, StepShape shape,
                                   ModelId leader, std::vector<PlannedGraph>& graphs) const {
  if (!rows_.feature_cache || !model.graphs().has_deep_features()) return;
  shape.chunks = chunks;
  const ModelId id = model.row().id;
  const int paths = id == leader ? model.graphs().step_paths().ranks : 0;
  for (int ranks : std::set<int>{0, paths}) {
    shape.ranks = ranks;
    for (const DeepFeatures deep : DepthsOf(/*caches=*/true)) {
      shape.deep = deep;
      graphs.push_back({id, {.shape = shape}});
    }
  }
}

// A picture whose steps have more ports than the request part and the schedule give goes unsplit.
void NeededGraphs::AddSplitSteps(const StepShape& shape, Plan& plan) const {
  const bool reads_more =
      plan.ranks > 0 || !plan.image_prompts.empty() || !plan.controls.empty() || plan.caches();
  if (!rows_.split || !plan.guided() || plan.alone || reads_more) return;
  for (const PlannedStage& stage : plan.stages) {
    absl::c_move(SplitStepOf(*stage.model, shape, stage.chunks()),
                 std::back_inserter(plan.dispensable));
  }
}

}  // namespace latentd::pipeline
