#include "core/engine/admin/local_graph_admin.h"

#include <malloc.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/compiler/artifact.h"
#include "core/engine/api/serving.h"
#include "core/engine/reports/device_reports.h"

namespace latentd::engine {
namespace {

using compiler::GraphStatus;

bool IsLoaded(const GraphStatus& info) {
  return info.state == GraphState::kReady || info.state == GraphState::kLoading;
}

bool IsOnDisk(const GraphStatus& info) { return info.disk_bytes > 0; }

// Returns the test for a bucket's graph being wanted in the tier.
bool (*IsKept(CacheTier tier))(const GraphStatus&) {
  switch (tier) {
    case CacheTier::kMemory:
      return IsLoaded;
    case CacheTier::kDisk:
      return IsOnDisk;
    case CacheTier::kBoth:
      break;
  }
  return [](const GraphStatus& info) { return IsLoaded(info) || IsOnDisk(info); };
}

absl::StatusOr<EntryResult> ImportTo(const AdminDevice& device, const GraphStatus& info,
                                     const compiler::ArtifactPointer& artifact) {
  EntryResult result = ResultOf(info, device.stores.graphs.Import(artifact));
  device.changed();
  if (absl::IsFailedPrecondition(result.status)) return result;
  RETURN_IF_ERROR(result.status);
  result.unused = WhyUnused(info, device.stores.graphs.Declared(), device.buckets().Needs());
  return result;
}

}  // namespace

absl::StatusOr<std::vector<GraphEntry>> LocalGraphAdmin::List(const GraphSelector& selector) const {
  ASSIGN_OR_RETURN(const SelectedGraphs graphs, SelectOn(devices_, selector));
  std::vector<std::vector<GraphEntry>> entries(devices_.size());
  for (size_t i = 0; i < devices_.size(); ++i) {
    absl::c_transform(graphs[i], std::back_inserter(entries[i]), EntryOf);
  }
  return MergeEntries(devices_.names(), entries);
}

absl::StatusOr<GraphEntry> LocalGraphAdmin::Find(const std::string& id) const {
  ASSIGN_OR_RETURN(std::vector<GraphEntry> entries, List({.ids = {id}}));
  return std::move(entries.front());
}

std::vector<std::string> LocalGraphAdmin::UsersToLoad(size_t device,
                                                      const GraphSelector& selector) const {
  std::vector<std::string> users;
  for (const pipeline::ModelRow& row : devices_[device].models.pipeline->table().rows()) {
    const bool is_wanted = selector.models.empty()
                               ? !selector.ids.empty() || !row.is_on_demand()
                               : absl::c_linear_search(selector.models, row.name);
    if (is_wanted && !devices_.IsElsewhere(device, row.id)) users.push_back(row.name);
  }
  return users;
}

std::vector<EntryResult> LocalGraphAdmin::ForEach(const SelectedGraphs& graphs,
                                                  Change change) const {
  std::vector<std::vector<EntryResult>> results(devices_.size());
  for (const size_t i : devices_.Left()) {
    const AdminDevice& device = devices_[i];
    device.stores.writes.Flush();  // lest something is written after it was evicted
    for (const GraphStatus& info : graphs[i]) {
      results[i].push_back(ResultOf(info, change(device, info.id)));
    }
    device.changed();
  }
  return MergeResults(devices_.names(), results);
}

absl::StatusOr<std::vector<EntryResult>> LocalGraphAdmin::Save(const GraphSelector& selector) {
  ASSIGN_OR_RETURN(const SelectedGraphs graphs, SelectToCopy(devices_, selector));
  std::vector<std::string> names;
  for (const std::vector<GraphStatus>& of_device : graphs) {
    for (const GraphStatus& info : of_device) {
      if (!IsCompiled(info.state)) names.push_back(info.label.ToText());
    }
  }
  if (!names.empty()) {
    return WithReason(absl::FailedPreconditionError(
                          absl::StrCat("not compiled: ", ListSome(names, kMostNamed, "; "))),
                      "NOT_COMPILED");
  }
  return ForEach(graphs, [](const AdminDevice& device, const std::string& id) {
    return device.stores.graphs.Save(id);
  });
}

absl::StatusOr<std::vector<EntryResult>> LocalGraphAdmin::Load(const GraphSelector& selector) {
  ASSIGN_OR_RETURN(SelectedGraphs graphs, SelectOn(devices_, selector));
  std::map<const AdminDevice*, std::vector<std::string>> users;
  for (const size_t device : devices_.Left()) {
    const std::vector<std::string>& here = users[&devices_[device]] = UsersToLoad(device, selector);
    std::erase_if(graphs[device], [&](const compiler::GraphStatus& info) {
      return !info.users.empty() && absl::c_none_of(info.users, [&](const std::string& user) {
        return absl::c_linear_search(here, user);
      });
    });
  }
  return ForEach(graphs, [&](const AdminDevice& device, const std::string& id) {
    return device.preparer.Run([&] { return device.stores.graphs.Load(id, users.at(&device)); });
  });
}

absl::StatusOr<std::vector<EntryResult>> LocalGraphAdmin::Verify(const GraphSelector& selector) {
  ASSIGN_OR_RETURN(const SelectedGraphs graphs, SelectOn(devices_, selector));
  return ForEach(graphs, [](const AdminDevice& device, const std::string& id) {
    return device.stores.graphs.Verify(id);
  });
}

absl::StatusOr<std::vector<EntryResult>> LocalGraphAdmin::Evict(const GraphSelector& selector,
                                                                CacheTier tier, bool force) {
  ASSIGN_OR_RETURN(const SelectedGraphs graphs, SelectOn(devices_, selector, IsKept(tier)));
  std::vector<EntryResult> results =
      ForEach(graphs, [&](const AdminDevice& device, const std::string& id) {
        return device.stores.graphs.Evict(id, tier, force, selector.models);
      });
  for (const size_t i : devices_.Left()) {
    devices_[i].buckets().ForgetCold();
    devices_[i].changed();
  }
  malloc_trim(0);  // returns freed memory to the system, for other processes
  return results;
}

absl::StatusOr<std::vector<EntryResult>> LocalGraphAdmin::SetPinned(const GraphSelector& selector,
                                                                    bool pinned) {
  const auto is_pinned = [](const GraphStatus& info) { return info.pinned; };
  ASSIGN_OR_RETURN(const SelectedGraphs graphs,
                   SelectOn(devices_, selector, pinned ? nullptr : +is_pinned));
  return ForEach(graphs, [&](const AdminDevice& device, const std::string& id) {
    return device.stores.graphs.SetPinned(id, pinned);
  });
}

absl::Status LocalGraphAdmin::Export(const GraphSelector& selector,
                                     const std::function<bool(std::string artifact)>& take) {
  ASSIGN_OR_RETURN(const SelectedGraphs graphs, SelectToCopy(devices_, selector));
  for (const size_t i : devices_.Left()) {
    for (const GraphStatus& info : graphs[i]) {
      ASSIGN_OR_RETURN(std::string artifact, devices_[i].stores.graphs.Export(info.id));
      if (!take(std::move(artifact))) return absl::CancelledError("stopped while exporting");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<EntryResult> LocalGraphAdmin::Import(std::string file) {
  RETURN_IF_ERROR(devices_.CheckOpen());
  const absl::StatusOr<compiler::ArtifactPointer> parsed = compiler::ParseArtifact(file);
  if (absl::IsFailedPrecondition(parsed.status())) return EntryResult{.status = parsed.status()};
  RETURN_IF_ERROR(parsed.status());
  const GraphStatus info = {
      .id = (*parsed)->key.ToDigest().ToString(), .label = (*parsed)->label, .key = (*parsed)->key};
  std::vector<std::vector<EntryResult>> results(devices_.size());
  for (const size_t i : devices_.Left()) {
    ASSIGN_OR_RETURN(EntryResult result, ImportTo(devices_[i], info, *parsed));
    results[i].push_back(std::move(result));
  }
  return MergeResults(devices_.names(), results).front();
}

}  // namespace latentd::engine
