#include "core/engine/admin/local_model_admin.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/compiler/graph_store.h"
#include "core/engine/reports/graph_selection.h"

namespace latentd::engine {
namespace {

using compiler::GraphStatus;
using RowCounts = BucketGraphs::RowCounts;

// Counts graphs of the model's own, of the buckets of its leader.
ModelStatus StatusOf(const AdminDevice& device, const pipeline::ModelRow& model) {
  ModelStatus status{.name = model.name,
                     .checkpoint = model.checkpoint,
                     .family = model.family,
                     .residency = model.residency,
                     .pinned = device.stores.graphs.IsModelPinned(model.name)};
  GraphHandles counted;
  for (const ModelBucket& bucket : device.buckets().buckets()) {
    if (bucket.model != model.leader) continue;
    const auto graphs = device.buckets().GraphsOf(bucket, RowCounts::kOfPicture);
    if (!graphs.ok()) continue;
    bool all_ready = true;
    for (const compiler::GraphHandle& graph : *graphs) {
      if (graph->user != model.name) continue;
      const GraphStatus info = device.stores.graphs.StatusOf(graph);
      all_ready = all_ready && info.state == GraphState::kReady;
      if (absl::c_linear_search(counted, graph)) continue;
      counted.push_back(graph);
      status.graphs_ready += info.state == GraphState::kReady ? 1 : 0;
      status.last_use = std::max(status.last_use, info.last_use);
    }
    status.loaded = status.loaded || all_ready;
  }
  status.graphs_total = static_cast<int>(counted.size());
  return status;
}

}  // namespace

// Graphs are counted on the device that has most of them.
ModelStatus LocalModelAdmin::StatusOnAll(const pipeline::ModelRow& model) const {
  ModelStatus all;
  for (const size_t i : devices_.Left()) {
    ModelStatus here = StatusOf(devices_[i], model);
    here.devices = std::move(all.devices);
    if (here.loaded && devices_.size() > 1) here.devices.push_back(devices_.names()[i]);
    here.pinned |= all.pinned;
    here.loaded |= all.loaded;
    here.last_use = std::max(here.last_use, all.last_use);
    if (here.graphs_ready < all.graphs_ready) {
      here.graphs_ready = all.graphs_ready;
      here.graphs_total = all.graphs_total;
    }
    all = std::move(here);
  }
  return all;
}

absl::StatusOr<std::vector<ModelStatus>> LocalModelAdmin::List() const {
  RETURN_IF_ERROR(devices_.CheckOpen());
  std::vector<ModelStatus> models;
  for (const pipeline::LoadedModel* model : devices_.First().models.pipeline->Models()) {
    models.push_back(StatusOnAll(model->row()));
  }
  return models;
}

absl::Status LocalModelAdmin::Pin(const std::string& name, bool pinned) {
  RETURN_IF_ERROR(devices_.CheckOpen());
  const pipeline::ModelTable& table = devices_.First().models.pipeline->table();
  if (name.empty() || table.Find(name) == nullptr) {
    return WithReason(
        absl::NotFoundError(absl::StrCat("there is no model ", Excerpt(name), "; there are ",
                                         ListSome(table.Names(), kMostNamed))),
        "NO_SUCH_MODEL");
  }
  for (const size_t i : devices_.Left()) devices_[i].stores.graphs.SetModelPinned(name, pinned);
  return absl::OkStatus();
}

}  // namespace latentd::engine
