#include "core/pipeline/graphs/nets.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"

namespace latentd::pipeline {
namespace {

// Graphs that are kept: those of some sizes.
constexpr size_t kMostKeptGraphs = 64;

}  // namespace

NetGraphs::NetGraphs(std::string user, const LoadedModel& model,
                     std::shared_ptr<const weights::WeightSet> weights, compiler::GraphStore& store)
    : user_(std::move(user)), model_(model), weights_(std::move(weights)), store_(store) {}

absl::StatusOr<GraphHandle> NetGraphs::Find(const GraphName& name, ModelGraphs::IfUnknown unknown) {
  {
    absl::MutexLock lock(&mutex_);
    const auto found = known_.find(name);
    if (found != known_.end()) {
      if (GraphHandle known = found->second.lock()) return known;
    }
  }
  if (unknown == ModelGraphs::IfUnknown::kRefuse) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(LabelOf(name).ToText(), " is not ready")),
        "GRAPH_COLD");
  }
  ASSIGN_OR_RETURN(graph::Graph graph, Build(name));
  GraphHandle declared =
      store_.Declare({.label = LabelOf(name),
                      .user = user_,
                      .graph = std::make_shared<const graph::Graph>(std::move(graph)),
                      .weights = weights_,
                      .backend = model_.graphs().reference()});
  absl::MutexLock lock(&mutex_);
  known_[name] = declared;
  kept_.push_back(declared);
  if (kept_.size() > kMostKeptGraphs) kept_.pop_front();
  return declared;
}

ModelGraphs::Kept NetGraphs::kept() const {
  ModelGraphs::Kept kept;
  absl::MutexLock lock(&mutex_);
  for (const GraphHandle& graph : kept_) {
    const compiler::GraphStatus info = store_.StatusOf(graph);
    kept.loaded = kept.loaded || info.state == compiler::GraphState::kReady;
    kept.last_use = std::max(kept.last_use, info.last_use);
  }
  return kept;
}

std::string Nets::Place::key() const { return absl::StrCat(model, "\n", name, "\n", stamp); }

std::string Nets::Place::user() const { return absl::StrCat(model, "+", name); }

Nets::Graphs Nets::FindLocked(const std::string& key) {
  const auto found = absl::c_find_if(nets_, [&](const Net& net) { return net.key == key; });
  if (found == nets_.end()) return nullptr;
  nets_.splice(nets_.begin(), nets_, found);
  return nets_.front().graphs;
}

Nets::Graphs Nets::Find(const Place& place) {
  const std::string key = place.key();
  absl::MutexLock lock(&mutex_);
  return FindLocked(key);
}

absl::StatusOr<Nets::Graphs> Nets::FindOrMake(
    const Place& place, const std::function<absl::StatusOr<Graphs>()>& declare) {
  if (Graphs known = Find(place)) return known;
  Net made{.name = place.name, .user = place.user(), .key = place.key()};
  ASSIGN_OR_RETURN(made.graphs, declare());
  std::list<Net> leaving;
  Graphs graphs;
  {
    absl::MutexLock lock(&mutex_);
    graphs = FindLocked(made.key);
    if (graphs == nullptr) {
      graphs = made.graphs;
      made.pinned = absl::c_linear_search(pinned_, made.name);
      if (made.pinned) store_.SetModelPinned(made.user, true);
      nets_.push_front(std::move(made));
      leaving = Trim();
    }
  }
  Drop(std::move(leaving));
  return graphs;
}

std::list<Nets::Net> Nets::Trim() {
  std::list<Net> leaving;
  size_t idle = 0;
  for (auto net = nets_.begin(); net != nets_.end();) {
    const auto next = std::next(net);
    // The newest is its maker's.
    const bool is_idle = net != nets_.begin() && !net->in_use() && !net->pinned;
    if (is_idle && ++idle > kMostNets) leaving.splice(leaving.end(), nets_, net);
    net = next;
  }
  return leaving;
}

void Nets::Drop(std::list<Net> nets) {
  if (nets.empty()) return;
  for (const Net& net : nets) store_.SetModelPinned(net.user, false);
  nets.clear();
  store_.DropUnused();
}

Nets::Use Nets::UseOf(absl::string_view name) const {
  Use use;
  absl::MutexLock lock(&mutex_);
  for (const Net& net : nets_) {
    if (net.name != name) continue;
    ++use.nets;
    const ModelGraphs::Kept kept = net.graphs->kept();
    use.loaded = use.loaded || kept.loaded;
    use.last_use = std::max(use.last_use, kept.last_use);
  }
  return use;
}

bool Nets::Evict(absl::string_view name) {
  std::list<Net> leaving;
  bool stays = false;
  {
    absl::MutexLock lock(&mutex_);
    for (auto net = nets_.begin(); net != nets_.end();) {
      const auto next = std::next(net);
      const bool is_meant = net->name == name;
      stays = stays || (is_meant && net->in_use());
      if (is_meant && !net->in_use()) leaving.splice(leaving.end(), nets_, net);
      net = next;
    }
  }
  Drop(std::move(leaving));
  return !stays;
}

void Nets::SetPinned(absl::string_view name, bool pinned) {
  absl::MutexLock lock(&mutex_);
  std::erase(pinned_, name);
  if (pinned) pinned_.emplace_back(name);
  for (Net& net : nets_) {
    if (net.name != name) continue;
    net.pinned = pinned;
    store_.SetModelPinned(net.user, pinned);
  }
}

}  // namespace latentd::pipeline
