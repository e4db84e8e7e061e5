#include "core/pipeline/graphs/control_nets.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/digest.h"
#include "core/compiler/compile.h"
#include "core/pipeline/graphs/control_graph.h"

namespace latentd::pipeline {
namespace {

using device::DType;

// Latents at which the networks are built once to find out which weights they want.
constexpr int kProbeLatents = 8;

// Graphs that are kept: those of some sizes.
constexpr size_t kMostKeptGraphs = 64;

std::string NetKeyOf(const Control& control) {
  return absl::StrCat(control.name, "\n", control.stamp);
}

std::string NetKeyOf(const LoadedModel& model, const Control& control) {
  return absl::StrCat(model.row().name, "\n", NetKeyOf(control));
}

std::shared_ptr<weights::WeightSet> NetWeightsOf(const LoadedModel& model,
                                                 const adapters::ControlNet& net) {
  auto set = std::make_shared<weights::WeightSet>(&model.graphs().weights().store(), net.name);
  set->Add(kControlNetName, net.tensors);
  return set;
}

}  // namespace

ControlNetGraphs::ControlNetGraphs(std::string user, const LoadedModel& model,
                                   std::shared_ptr<const adapters::ControlNet> net,
                                   compiler::GraphStore& store)
    : user_(std::move(user)),
      model_(model),
      net_(std::move(net)),
      store_(store),
      weights_(NetWeightsOf(model, *net_)) {}

absl::StatusOr<std::shared_ptr<ControlNetGraphs>> ControlNetGraphs::Declare(
    std::string user, const LoadedModel& model, std::shared_ptr<const adapters::ControlNet> net,
    compiler::GraphStore& store) {
  std::shared_ptr<ControlNetGraphs> graphs(
      new ControlNetGraphs(std::move(user), model, std::move(net), store));
  const absl::Status fits = graphs->CheckWeights();
  if (fits.ok()) return graphs;
  return absl::Status(fits.code(), absl::StrCat(graphs->net_->path, ": ", fits.message()));
}

absl::Status ControlNetGraphs::CheckWeights() const {
  const DType dtype = model_.graphs().residual_dtype();
  ASSIGN_OR_RETURN(const graph::Graph hint,
                   MakeHintGraph(net_->config, kProbeLatents, kProbeLatents, dtype));
  RETURN_IF_ERROR(weights_->Check(hint));
  ASSIGN_OR_RETURN(const graph::Graph step,
                   MakeControlGraph(model_.family(), model_.configs(), net_->config,
                                    {1, kProbeLatents, kProbeLatents}, dtype));
  return weights_->Check(step);
}

absl::StatusOr<graph::SplitGraphs> ControlNetGraphs::Build(const GraphName& name) const {
  const DType dtype = model_.graphs().residual_dtype();
  const StepShape shape = name.kind == GraphKind::kControlRequest
                              ? StepShape{1, kProbeLatents, kProbeLatents, name.shape.chunks}
                              : name.shape;
  auto whole =
      name.kind == GraphKind::kHint
          ? MakeHintGraph(net_->config, shape.height, shape.width, dtype)
          : MakeControlGraph(model_.family(), model_.configs(), net_->config, shape, dtype);
  RETURN_IF_ERROR(whole.status());
  return compiler::SplitInPrecision(*whole, {.dtype = dtype});
}

compiler::GraphLabel ControlNetGraphs::LabelOf(const GraphName& name) const {
  const int scale = DownscaleOf(model_.vae());
  compiler::GraphLabel label{.model = model_.row().name,
                             .component = std::string(kControlNetName),
                             .part = "step",
                             .width = name.shape.width * scale,
                             .height = name.shape.height * scale,
                             .rows = name.shape.rows};
  if (name.kind == GraphKind::kHint) label.part = "hint";
  if (name.kind == GraphKind::kControlRequest) label.part = "request";
  if (name.shape.chunks > 1) absl::StrAppend(&label.part, "_", name.shape.chunks, "_chunks");
  label.dtype = model_.graphs().residual_dtype();
  return label;
}

absl::StatusOr<GraphHandle> ControlNetGraphs::Find(const GraphName& name,
                                                   ModelGraphs::IfUnknown unknown) {
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
  ASSIGN_OR_RETURN(graph::SplitGraphs split, Build(name));
  const bool is_request = name.kind == GraphKind::kControlRequest;
  if (is_request && !split.request) {
    return absl::InvalidArgumentError(absl::StrCat(net_->path, " reads no prompt"));
  }
  graph::Graph graph = is_request ? *std::move(split.request) : std::move(split.step);
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

ModelGraphs::Kept ControlNetGraphs::kept() const {
  ModelGraphs::Kept kept;
  absl::MutexLock lock(&mutex_);
  for (const GraphHandle& graph : kept_) {
    const compiler::GraphStatus info = store_.StatusOf(graph);
    kept.loaded = kept.loaded || info.state == compiler::GraphState::kReady;
    kept.last_use = std::max(kept.last_use, info.last_use);
  }
  return kept;
}

uint64_t ControlNets::IdOf(const Control& control) { return DigestOf(NetKeyOf(control)).low | 1; }

ControlNets::Graphs ControlNets::FindLocked(const std::string& key) {
  const auto found = absl::c_find_if(nets_, [&](const Net& net) { return net.key == key; });
  if (found == nets_.end()) return nullptr;
  nets_.splice(nets_.begin(), nets_, found);
  return nets_.front().graphs;
}

ControlNets::Graphs ControlNets::Find(const LoadedModel& model, const Control& control) {
  const std::string key = NetKeyOf(model, control);
  absl::MutexLock lock(&mutex_);
  return FindLocked(key);
}

absl::StatusOr<ControlNets::Graphs> ControlNets::FindOrMake(const LoadedModel& model,
                                                            const Control& control) {
  if (Graphs known = Find(model, control)) return known;
  ASSIGN_OR_RETURN(auto net,
                   catalogue_.LoadControlNet(control.name, control.stamp, model.row().name));
  Net made{.name = control.name,
           .user = absl::StrCat(model.row().name, "+", control.name),
           .key = NetKeyOf(model, control)};
  ASSIGN_OR_RETURN(made.graphs,
                   ControlNetGraphs::Declare(made.user, model, std::move(net), store_));
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

std::list<ControlNets::Net> ControlNets::Trim() {
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

void ControlNets::Drop(std::list<Net> nets) {
  if (nets.empty()) return;
  for (const Net& net : nets) store_.SetModelPinned(net.user, false);
  nets.clear();
  store_.DropUnused();
}

ControlNets::Use ControlNets::UseOf(absl::string_view name) const {
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

bool ControlNets::Evict(absl::string_view name) {
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

void ControlNets::SetPinned(absl::string_view name, bool pinned) {
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
