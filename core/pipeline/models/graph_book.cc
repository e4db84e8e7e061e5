#include "core/pipeline/models/graph_book.h"

#include <cstddef>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"

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

}  // namespace

absl::StatusOr<std::vector<GraphHandle>> GraphBook::HandlesOf(absl::Span<const PlannedGraph> graphs,
                                                              IfUnknown unknown) const {
  std::vector<GraphHandle> handles;
  for (const PlannedGraph& graph : graphs) {
    ASSIGN_OR_RETURN(handles.emplace_back(),
                     models_[graph.model].graphs().Find(graph.name, unknown));
  }
  return handles;
}

absl::StatusOr<AdapterSets::Graphs> GraphBook::AdaptedGraphsOf(const Plan& plan,
                                                               IfUnknown unknown) const {
  if (plan.spec.adapters.empty()) return AdapterSets::Graphs();
  const LoadedModel& model = *models_.ChainOf(plan.spec).front();
  if (unknown == IfUnknown::kBuild) return adapters_->FindOrMake(model, plan.spec.adapters);
  if (AdapterSets::Graphs known = adapters_->Find(model, plan.spec.adapters)) return known;
  return WithReason(absl::FailedPreconditionError("the adapters are not merged"), "GRAPH_COLD");
}

absl::StatusOr<std::vector<Nets::Graphs>> GraphBook::ControlGraphsOf(const Plan& plan,
                                                                     IfUnknown unknown) const {
  if (plan.controls.empty()) return std::vector<Nets::Graphs>();
  std::vector<const Control*> named;
  for (const Control& control : plan.spec.controls) named.push_back(&control);
  return GraphsOfNets(adapters_->control_nets(), *models_.ChainOf(plan.spec).front(), named,
                      unknown);
}

absl::StatusOr<std::vector<Nets::Graphs>> GraphBook::ImagePromptGraphsOf(const Plan& plan,
                                                                         IfUnknown unknown) const {
  if (plan.image_prompts.empty()) return std::vector<Nets::Graphs>();
  std::vector<const ImagePrompt*> named;
  for (const PlannedImagePrompt& planned : plan.image_prompts) {
    named.push_back(&plan.spec.ip_adapters[planned.index]);
  }
  return GraphsOfNets(adapters_->ip_adapters(), *models_.ChainOf(plan.spec).front(), named,
                      unknown);
}

absl::StatusOr<GraphBook::Brought> GraphBook::BroughtBy(const Plan& plan, IfUnknown unknown) const {
  Brought brought;
  ASSIGN_OR_RETURN(brought.adapted, AdaptedGraphsOf(plan, unknown));
  ASSIGN_OR_RETURN(brought.controls, ControlGraphsOf(plan, unknown));
  ASSIGN_OR_RETURN(brought.image_prompts, ImagePromptGraphsOf(plan, unknown));
  return brought;
}

absl::StatusOr<std::vector<GraphHandle>> GraphBook::HandlesOver(
    const Brought& brought, const Plan& plan, absl::Span<const PlannedGraph> graphs,
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
    ModelGraphs& own = models_[graph.model].graphs();
    const bool is_adapted = brought.adapted != nullptr && graph.model == first;
    ModelGraphs& its = is_adapted ? *brought.adapted : own;
    ASSIGN_OR_RETURN(handles.emplace_back(), its.Find(graph.name, unknown));
  }
  return handles;
}

absl::StatusOr<std::vector<GraphHandle>> GraphBook::HandlesOf(const Plan& plan, IfUnknown unknown,
                                                              Of of) const {
  Brought brought;
  if (of == Of::kAdapters) {
    ASSIGN_OR_RETURN(brought, BroughtBy(plan, unknown));
  }
  return HandlesOver(brought, plan, plan.graphs, unknown);
}

absl::StatusOr<std::vector<GraphHandle>> GraphBook::DispensableOf(const Plan& plan,
                                                                  IfUnknown unknown) const {
  ASSIGN_OR_RETURN(const Brought brought, BroughtBy(plan, unknown));
  return HandlesOver(brought, plan, plan.dispensable, unknown);
}

}  // namespace latentd::pipeline
