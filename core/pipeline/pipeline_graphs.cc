// Handles of the graphs of a plan: the models' own, those over its LoRAs, those of networks beside
// them, and those of steps that two devices share.
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/pipeline/pipeline.h"
#include "core/pipeline/plan/controls.h"
#include "core/pipeline/plan/image_prompts.h"
#include "core/pipeline/spec/limits.h"

namespace latentd::pipeline {
namespace {

using IfUnknown = ModelGraphs::IfUnknown;

// Graphs of the network with that id; null: they were not brought.
template <typename Planned>
Nets::Graphs NetOf(const std::vector<Planned>& planned, const std::vector<Nets::Graphs>& brought,
                   uint64_t id) {
  const auto found = absl::c_find_if(planned, [&](const Planned& one) { return one.id == id; });
  const auto index = static_cast<size_t>(found - planned.begin());
  return index < brought.size() ? brought[index] : nullptr;
}

// Graphs of the networks of one kind that a request names, in order.
template <typename KindOfNets, typename Named>
absl::StatusOr<std::vector<Nets::Graphs>> GraphsOfNets(KindOfNets& nets, const LoadedModel& model,
                                                       const std::vector<const Named*>& all,
                                                       IfUnknown unknown) {
  std::vector<Nets::Graphs> graphs;
  for (const Named* one : all) {
    if (unknown == IfUnknown::kBuild) {
      ASSIGN_OR_RETURN(graphs.emplace_back(), nets.FindOrMake(model, *one));
    } else if (graphs.emplace_back(nets.Find(model, *one)) == nullptr) {
      return WithReason(absl::FailedPreconditionError(absl::StrCat(one->name, " is not declared")),
                        "GRAPH_COLD");
    }
  }
  return graphs;
}

// Names and shapes of tensors tell nets of one shape, as far as files go.
void AppendShapes(const weights::TensorMap& tensors, std::string& text) {
  std::map<std::string, device::Shape> shapes;
  for (const auto& [name, tensor] : tensors) shapes[name] = tensor.data.shape();
  for (const auto& [name, shape] : shapes) absl::StrAppend(&text, name, shape.ToString(), "\n");
}

// Kinds of steps that a bucket has ready.
std::vector<DeepFeatures> KindsOfSteps(const ModelGraphs& graphs, bool caches) {
  std::vector<DeepFeatures> kinds = DepthsOf(/*caches=*/false);
  if (caches && graphs.has_deep_features()) absl::c_copy(DepthsOf(true), std::back_inserter(kinds));
  return kinds;
}

std::string PromptGraphShape(const adapters::IpAdapter& adapter) {
  const networks::ClipVisionConfig& encoder = adapter.encoder;
  std::string text = absl::StrCat(
      encoder.image_size, " ", encoder.num_hidden_layers, " ", encoder.num_attention_heads, " ",
      static_cast<int>(encoder.activation), " ", encoder.layer_norm_eps, "\n");
  AppendShapes(adapter.tensors, text);
  AppendShapes(adapter.encoder_tensors, text);
  return text;
}

}  // namespace

// REQUIRES: Draws(model).
const LoadedModel& Pipeline::LoadedModelOf(ModelId model) const {
  return *models_[static_cast<size_t>(model.value)];
}

absl::StatusOr<std::vector<GraphHandle>> Pipeline::HandlesOf(absl::Span<const PlannedGraph> graphs,
                                                             IfUnknown unknown) const {
  std::vector<GraphHandle> handles;
  for (const PlannedGraph& graph : graphs) {
    ASSIGN_OR_RETURN(handles.emplace_back(),
                     LoadedModelOf(graph.model).graphs().Find(graph.name, unknown));
  }
  return handles;
}

absl::StatusOr<AdapterSets::Graphs> Pipeline::AdaptedGraphsOf(const Plan& plan,
                                                              IfUnknown unknown) const {
  if (plan.spec.adapters.empty()) return AdapterSets::Graphs();
  const LoadedModel& model = *ModelsOf(plan.spec).front();
  if (unknown == IfUnknown::kBuild) return adapters_->FindOrMake(model, plan.spec.adapters);
  if (AdapterSets::Graphs known = adapters_->Find(model, plan.spec.adapters)) return known;
  return WithReason(absl::FailedPreconditionError("the adapters are not merged"), "GRAPH_COLD");
}

absl::StatusOr<std::vector<Nets::Graphs>> Pipeline::ControlGraphsOf(const Plan& plan,
                                                                    IfUnknown unknown) const {
  if (plan.controls.empty()) return std::vector<Nets::Graphs>();
  std::vector<const Control*> named;
  for (const Control& control : plan.spec.controls) named.push_back(&control);
  return GraphsOfNets(adapters_->control_nets(), *ModelsOf(plan.spec).front(), named, unknown);
}

absl::StatusOr<std::vector<Nets::Graphs>> Pipeline::ImagePromptGraphsOf(const Plan& plan,
                                                                        IfUnknown unknown) const {
  if (plan.image_prompts.empty()) return std::vector<Nets::Graphs>();
  std::vector<const ImagePrompt*> named;
  for (const PlannedImagePrompt& planned : plan.image_prompts) {
    named.push_back(&plan.spec.ip_adapters[planned.index]);
  }
  return GraphsOfNets(adapters_->ip_adapters(), *ModelsOf(plan.spec).front(), named, unknown);
}

std::vector<ImagePrompt> Pipeline::ImagePromptsOf(ModelId leader) const {
  if (adapters_ == nullptr || !Draws(leader)) return {};
  return ImagePromptsFor(adapters_->catalogue(), LoadedModelOf(leader));
}

std::vector<Control> Pipeline::ControlsOf(ModelId leader) const {
  if (adapters_ == nullptr || !Draws(leader)) return {};
  return ControlsFor(adapters_->catalogue(), LoadedModelOf(leader));
}

std::vector<Control> Pipeline::ControlsOfEachShape(ModelId leader) const {
  std::set<std::string> known;
  std::vector<Control> controls;
  for (Control& control : ControlsOf(leader)) {
    const auto net = adapters_->catalogue().LoadControlNet(control.name, control.stamp,
                                                           LoadedModelOf(leader).row().name);
    if (!net.ok()) continue;
    std::string shape;
    AppendShapes((*net)->tensors, shape);
    if (known.insert(std::move(shape)).second) controls.push_back(std::move(control));
    if (controls.size() == ControlNets::kMostNets) break;
  }
  return controls;
}

absl::StatusOr<std::vector<GraphHandle>> Pipeline::ControlledStepsOf(ModelId leader, Size bucket,
                                                                     int rows) const {
  std::vector<GraphHandle> steps;
  std::set<ImageTokens> tokens;  // none: what control networks add
  if (!ControlsOf(leader).empty()) tokens.insert(ImageTokens());
  for (const ImagePrompt& prompt : ImagePromptsOf(leader)) tokens.insert({prompt.tokens});
  if (tokens.empty()) return steps;
  ModelGraphs& graphs = LoadedModelOf(leader).graphs();
  StepShape shape = ShapeOf(bucket, rows);
  for (shape.chunks = 1; shape.chunks <= ready_prompts_.chunks; ++shape.chunks) {
    for (int ranks : std::set<int>{0, graphs.step_paths().ranks}) {
      shape.ranks = ranks;
      for (const ImageTokens& counts : tokens) {
        shape.image_tokens = counts;
        for (const DeepFeatures deep : KindsOfSteps(graphs, rows_.feature_cache)) {
          shape.deep = deep;
          ASSIGN_OR_RETURN(steps.emplace_back(),
                           graphs.Find({.shape = shape, .controlled = counts.empty()}));
        }
      }
    }
  }
  return steps;
}

void Pipeline::AddNetGraphs(NetGraphs& net, ModelId leader, Size bucket,
                            std::vector<GraphHandle>& all) const {
  StepShape shape = ShapeOf(bucket, /*rows=*/1);
  for (shape.chunks = 1; shape.chunks <= ready_prompts_.chunks; ++shape.chunks) {
    for (const PlannedGraph& graph :
         GraphsOfControl(leader, /*control=*/0, shape, {1, kMaxRowsOfPicture})) {
      absl::StatusOr<GraphHandle> handle = net.Find(graph.name, IfUnknown::kBuild);
      if (handle.ok()) all.push_back(*std::move(handle));
    }
  }
}

std::vector<ImagePrompt> Pipeline::ImagePromptsOfEachShape(ModelId leader) const {
  std::set<std::string> known;
  std::vector<ImagePrompt> prompts;
  for (ImagePrompt& prompt : ImagePromptsOf(leader)) {
    const auto adapter = adapters_->catalogue().LoadIpAdapter(prompt.name, prompt.stamp,
                                                              LoadedModelOf(leader).row().name);
    if (!adapter.ok()) continue;
    if (known.insert(PromptGraphShape(**adapter)).second) prompts.push_back(std::move(prompt));
    if (prompts.size() == Nets::kMostNets) break;
  }
  return prompts;
}

void Pipeline::AddIpAdapterGraphs(ModelId leader, std::vector<GraphHandle>& all) const {
  for (const ImagePrompt& prompt : ImagePromptsOfEachShape(leader)) {
    const auto net = adapters_->ip_adapters().FindOrMake(LoadedModelOf(leader), prompt);
    if (!net.ok()) continue;
    for (const PlannedGraph& graph : GraphsOfIpAdapter(leader, /*net=*/0, /*images=*/1)) {
      absl::StatusOr<GraphHandle> handle = (*net)->Find(graph.name, IfUnknown::kBuild);
      if (handle.ok()) all.push_back(*std::move(handle));
    }
  }
}

std::vector<GraphHandle> Pipeline::ControlNetGraphsOf(ModelId leader,
                                                      absl::Span<const Size> buckets) const {
  std::vector<GraphHandle> all;
  for (const Control& control : ControlsOfEachShape(leader)) {
    const auto net = adapters_->control_nets().FindOrMake(LoadedModelOf(leader), control);
    if (!net.ok()) continue;
    for (const Size& bucket : buckets) AddNetGraphs(**net, leader, bucket, all);
  }
  AddIpAdapterGraphs(leader, all);
  return all;
}

absl::StatusOr<Pipeline::BroughtGraphs> Pipeline::BroughtBy(const Plan& plan,
                                                            IfUnknown unknown) const {
  BroughtGraphs brought;
  ASSIGN_OR_RETURN(brought.adapted, AdaptedGraphsOf(plan, unknown));
  ASSIGN_OR_RETURN(brought.controls, ControlGraphsOf(plan, unknown));
  ASSIGN_OR_RETURN(brought.image_prompts, ImagePromptGraphsOf(plan, unknown));
  return brought;
}

absl::StatusOr<std::vector<GraphHandle>> Pipeline::HandlesOver(
    const BroughtGraphs& brought, const Plan& plan, absl::Span<const PlannedGraph> graphs,
    IfUnknown unknown) const {
  const ModelId first = plan.stages.front().model->row().id;
  std::vector<GraphHandle> handles;
  for (const PlannedGraph& graph : graphs) {
    if (graph.net != 0) {
      Nets::Graphs net = NetOf(plan.image_prompts, brought.image_prompts, graph.net);
      if (net == nullptr) net = NetOf(plan.controls, brought.controls, graph.net);
      // Without what adapters bring, no net's graphs are asked for.
      if (net == nullptr) continue;
      ASSIGN_OR_RETURN(handles.emplace_back(), net->Find(graph.name, unknown));
      continue;
    }
    ModelGraphs& own = LoadedModelOf(graph.model).graphs();
    const bool is_adapted = brought.adapted != nullptr && graph.model == first;
    ModelGraphs& its = is_adapted ? *brought.adapted : own;
    ASSIGN_OR_RETURN(handles.emplace_back(), its.Find(graph.name, unknown));
  }
  return handles;
}

absl::StatusOr<std::vector<GraphHandle>> Pipeline::HandlesOf(const Plan& plan, IfUnknown unknown,
                                                             Of of) const {
  BroughtGraphs brought;
  if (of == Of::kAdapters) {
    ASSIGN_OR_RETURN(brought, BroughtBy(plan, unknown));
  }
  return HandlesOver(brought, plan, plan.graphs, unknown);
}

absl::StatusOr<std::vector<GraphHandle>> Pipeline::DispensableOf(const Plan& plan,
                                                                 IfUnknown unknown) const {
  ASSIGN_OR_RETURN(const BroughtGraphs brought, BroughtBy(plan, unknown));
  return HandlesOver(brought, plan, plan.dispensable, unknown);
}

void Pipeline::PlanFeatureCache(Plan& plan) {
  PlanShallow(plan.spec.feature_cache_interval.value_or(1), plan.stages);
  for (PlannedStage& stage : plan.stages) {
    if (!stage.model->graphs().has_deep_features()) stage.shallow.clear();
  }
}

void Pipeline::AddSharedSteps(const StepShape& shape, Plan& plan) const {
  for (const PlannedStage& stage : plan.stages) {
    const bool is_first = &stage == &plan.stages.front();
    GraphName step = {.shape = {.height = shape.height,
                                .width = shape.width,
                                .chunks = stage.chunks(),
                                .ranks = is_first ? plan.ranks : 0,
                                .image_tokens = is_first ? plan.image_tokens() : ImageTokens()},
                      .controlled = is_first && !plan.controls.empty()};
    for (int rows : RowCountsAt(plan.executed_size)) {
      if (rows <= plan.rows || plan.alone) continue;
      step.shape.rows = rows;
      for (const DeepFeatures deep : DepthsOf(stage.caches())) {
        step.shape.deep = deep;
        plan.dispensable.push_back({stage.model->row().id, step});
      }
    }
  }
}

void Pipeline::AddCachingSteps(const LoadedModel& model, int chunks, StepShape shape,
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
void Pipeline::AddSplitSteps(const StepShape& shape, Plan& plan) const {
  const bool reads_more =
      plan.ranks > 0 || !plan.image_prompts.empty() || !plan.controls.empty() || plan.caches();
  if (!rows_.split || !plan.guided() || plan.alone || reads_more) return;
  for (const PlannedStage& stage : plan.stages) {
    absl::c_move(SplitStepOf(*stage.model, shape, stage.chunks()),
                 std::back_inserter(plan.dispensable));
  }
}

std::vector<PlannedGraph> Pipeline::SplitStepOf(const LoadedModel& model, const StepShape& shape,
                                                int chunks) {
  const bool reference = model.graphs().reference() != nullptr;
  if (reference || model.configs().inpaints() || model.row().draws_videos) return {};
  const ModelId id = model.row().id;
  return {{id,
           {GraphKind::kNetwork,
            {.rows = 1, .height = shape.height, .width = shape.width, .chunks = chunks}}},
          {id, {GraphKind::kAdvance, {.rows = 2, .height = shape.height, .width = shape.width}}}};
}

absl::StatusOr<std::vector<GraphHandle>> Pipeline::SplitStepsOf(ModelId leader, Size bucket,
                                                                IfUnknown unknown) const {
  std::vector<PlannedGraph> graphs;
  if (!rows_.split) return std::vector<GraphHandle>();
  const StepShape shape = ShapeOf(bucket, /*rows=*/2);
  for (const LoadedModel* model : GroupOf(leader)) {
    for (int chunks = 1; chunks <= ready_prompts_.chunks; ++chunks) {
      absl::c_move(SplitStepOf(*model, shape, chunks), std::back_inserter(graphs));
    }
  }
  return HandlesOf(graphs, unknown);
}

}  // namespace latentd::pipeline
