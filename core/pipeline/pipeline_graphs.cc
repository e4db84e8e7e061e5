// Handles of the graphs of a plan: the models' own, those over its LoRAs, and its ControlNets'.
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/pipeline/pipeline.h"
#include "core/pipeline/plan/controls.h"
#include "core/pipeline/spec/limits.h"

namespace latentd::pipeline {
namespace {

using IfUnknown = ModelGraphs::IfUnknown;

// The plan's control that is that net, the first of several.
size_t IndexOf(const Plan& plan, uint64_t control) {
  const auto found =
      absl::c_find_if(plan.controls, [&](const PlannedControl& one) { return one.id == control; });
  return static_cast<size_t>(found - plan.controls.begin());
}

}  // namespace

// REQUIRES: Draws(model).
const LoadedModel& Pipeline::LoadedModelOf(ModelId model) const {
  return *models_[static_cast<size_t>(model.value)];
}

absl::StatusOr<AdapterSets::Graphs> Pipeline::AdaptedGraphsOf(const Plan& plan,
                                                              IfUnknown unknown) const {
  if (plan.spec.adapters.empty()) return AdapterSets::Graphs();
  const LoadedModel& model = *ModelsOf(plan.spec).front();
  if (unknown == IfUnknown::kBuild) return adapters_->FindOrMake(model, plan.spec.adapters);
  if (AdapterSets::Graphs known = adapters_->Find(model, plan.spec.adapters)) return known;
  return WithReason(absl::FailedPreconditionError("the adapters are not merged"), "GRAPH_COLD");
}

absl::StatusOr<std::vector<ControlNets::Graphs>> Pipeline::ControlGraphsOf(
    const Plan& plan, IfUnknown unknown) const {
  std::vector<ControlNets::Graphs> graphs;
  if (plan.controls.empty()) return graphs;
  const LoadedModel& model = *ModelsOf(plan.spec).front();
  ControlNets& nets = adapters_->control_nets();
  for (const Control& control : plan.spec.controls) {
    if (unknown == IfUnknown::kBuild) {
      ASSIGN_OR_RETURN(graphs.emplace_back(), nets.FindOrMake(model, control));
    } else if (graphs.emplace_back(nets.Find(model, control)) == nullptr) {
      return WithReason(
          absl::FailedPreconditionError(absl::StrCat(control.name, " is not declared")),
          "GRAPH_COLD");
    }
  }
  return graphs;
}

std::vector<Control> Pipeline::ControlsOf(ModelId leader) const {
  if (adapters_ == nullptr || !Draws(leader)) return {};
  return ControlsFor(adapters_->catalogue(), LoadedModelOf(leader));
}

absl::StatusOr<std::vector<GraphHandle>> Pipeline::ControlledStepsOf(ModelId leader,
                                                                     Size bucket) const {
  std::vector<GraphHandle> steps;
  if (ControlsOf(leader).empty()) return steps;
  ModelGraphs& graphs = LoadedModelOf(leader).graphs();
  for (int chunks = 1; chunks <= ready_prompts_.chunks; ++chunks) {
    for (int rows : RowCountsAt(bucket)) {
      for (int ranks : std::set<int>{0, graphs.step_paths().ranks}) {
        StepShape shape = ShapeOf(bucket, rows);
        shape.chunks = chunks;
        shape.ranks = ranks;
        ASSIGN_OR_RETURN(steps.emplace_back(), graphs.Find({.shape = shape, .controlled = true}));
      }
    }
  }
  return steps;
}

std::vector<GraphHandle> Pipeline::ControlNetGraphsOf(ModelId leader, Size bucket) const {
  std::vector<GraphHandle> all;
  for (const Control& control : ControlsOf(leader)) {
    const auto net = adapters_->control_nets().FindOrMake(LoadedModelOf(leader), control);
    if (!net.ok()) continue;
    for (int chunks = 1; chunks <= ready_prompts_.chunks; ++chunks) {
      StepShape shape = ShapeOf(bucket, /*rows=*/1);
      shape.chunks = chunks;
      for (const PlannedGraph& graph :
           GraphsOfControl(leader, ControlNets::IdOf(control), shape, {1, kMaxRowsOfPicture})) {
        absl::StatusOr<GraphHandle> handle = (*net)->Find(graph.name, IfUnknown::kBuild);
        if (handle.ok()) all.push_back(*std::move(handle));
      }
    }
  }
  return all;
}

absl::StatusOr<Pipeline::BroughtGraphs> Pipeline::BroughtBy(const Plan& plan,
                                                            IfUnknown unknown) const {
  BroughtGraphs brought;
  ASSIGN_OR_RETURN(brought.adapted, AdaptedGraphsOf(plan, unknown));
  ASSIGN_OR_RETURN(brought.controls, ControlGraphsOf(plan, unknown));
  return brought;
}

absl::StatusOr<std::vector<GraphHandle>> Pipeline::HandlesOver(
    const BroughtGraphs& brought, const Plan& plan, absl::Span<const PlannedGraph> graphs,
    IfUnknown unknown) const {
  const ModelId first = plan.stages.front().model->row().id;
  std::vector<GraphHandle> handles;
  for (const PlannedGraph& graph : graphs) {
    if (graph.control != 0) {
      const size_t index = IndexOf(plan, graph.control);
      // Without what adapters bring, no net's graphs are asked for.
      if (index >= brought.controls.size()) continue;
      ASSIGN_OR_RETURN(handles.emplace_back(), brought.controls[index]->Find(graph.name, unknown));
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

}  // namespace latentd::pipeline
