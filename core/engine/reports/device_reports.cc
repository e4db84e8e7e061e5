#include "core/engine/reports/device_reports.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace latentd::engine {
namespace {

// True if a graph's state on one device is reported, not the other's: it failed, or is less far.
bool IsLessFar(GraphState a, GraphState b) {
  if (a == GraphState::kFailed || b == GraphState::kFailed) return b != GraphState::kFailed;
  return a < b;
}

// A graph on all devices; one status stands for all where it is as far on each.
struct MergedGraph {
  size_t place = 0;   // in the list
  size_t device = 0;  // whose state it is
  bool differs = false;
};

void MergeState(const GraphEntry& one, size_t device, GraphEntry& all, MergedGraph& merged) {
  if (one.state == all.state) return;
  merged.differs = true;
  if (!IsLessFar(one.state, all.state)) return;
  all.state = one.state;
  all.reason = one.reason;
  merged.device = device;
}

void AddTo(GraphEntry& all, const GraphEntry& one) {
  all.device_bytes += one.device_bytes;
  all.memory_bytes += one.memory_bytes;
  all.hits += one.hits;
  all.arena_bytes = std::max(all.arena_bytes, one.arena_bytes);
  all.disk_bytes = std::max(all.disk_bytes, one.disk_bytes);
  all.compile_time = std::max(all.compile_time, one.compile_time);
  all.load_time = std::max(all.load_time, one.load_time);
  all.last_use = std::max(all.last_use, one.last_use);
  all.pinned = all.pinned || one.pinned;
  all.in_use = all.in_use || one.in_use;
}

void AddComponents(const std::vector<ComponentMemory>& more,
                   std::map<std::pair<std::string, std::string>, ComponentMemory>& all) {
  for (const ComponentMemory& one : more) {
    ComponentMemory& component = all[{one.component, one.model}];
    component.model = one.model;
    component.component = one.component;
    component.bytes += one.bytes;
    component.shared_bytes += one.shared_bytes;
    std::set<std::string> users(component.users.begin(), component.users.end());
    users.insert(one.users.begin(), one.users.end());
    component.users.assign(users.begin(), users.end());
  }
}

}  // namespace

absl::Status OfDevice(absl::string_view device, const absl::Status& status) {
  if (status.ok() || device.empty()) return status;
  absl::Status named(status.code(), absl::StrCat(device, ": ", status.message()));
  status.ForEachPayload(
      [&](absl::string_view type, const absl::Cord& payload) { named.SetPayload(type, payload); });
  return named;
}

std::vector<GraphEntry> MergeEntries(absl::Span<const std::string> devices,
                                     absl::Span<const std::vector<GraphEntry>> entries) {
  std::vector<GraphEntry> all;
  std::map<std::string, MergedGraph> graphs;
  for (size_t i = 0; i < entries.size(); ++i) {
    for (const GraphEntry& entry : entries[i]) {
      const auto [graph, is_first] =
          graphs.emplace(entry.id, MergedGraph{.place = all.size(), .device = i});
      if (is_first) {
        all.push_back(entry);
        continue;
      }
      GraphEntry& merged = all[graph->second.place];
      MergeState(entry, i, merged, graph->second);
      AddTo(merged, entry);
    }
  }
  for (const auto& [id, graph] : graphs) {
    std::string& reason = all[graph.place].reason;
    if (graph.differs && !reason.empty())
      reason = absl::StrCat(devices[graph.device], ": ", reason);
  }
  return all;
}

std::vector<EntryResult> MergeResults(absl::Span<const std::string> devices,
                                      absl::Span<const std::vector<EntryResult>> results) {
  std::vector<EntryResult> all;
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < results.size(); ++i) {
    for (EntryResult result : results[i]) {
      result.status = OfDevice(devices[i], result.status);
      const auto [place, is_first] = places.emplace(result.id, all.size());
      if (is_first) {
        all.push_back(std::move(result));
      } else {
        all[place->second].status.Update(result.status);
      }
    }
  }
  return all;
}

MemoryPrediction Sum(const MemoryPrediction& a, const MemoryPrediction& b) {
  return {.weights = a.weights + b.weights,
          .arena = a.arena + b.arena,
          .state = a.state + b.state,
          .executables = a.executables + b.executables};
}

MemoryReport MergeReports(absl::Span<const std::string> devices,
                          absl::Span<const MemoryReport> reports) {
  MemoryReport all = reports.front();
  if (reports.size() == 1) return all;
  all.devices.clear();
  std::map<std::pair<std::string, std::string>, ComponentMemory> components;
  for (size_t i = 0; i < reports.size(); ++i) {
    AddComponents(reports[i].weights, components);
    for (DeviceMemoryReport own : reports[i].devices) {
      own.name = absl::StrCat(devices[i], ": ", own.name);
      all.devices.push_back(std::move(own));
    }
  }
  for (const MemoryReport& report : reports.subspan(1)) {
    for (int64_t MemoryReport::*bytes :
         {&MemoryReport::weight_bytes, &MemoryReport::mapped_bytes,
          &MemoryReport::kept_tensor_bytes, &MemoryReport::arena_bytes, &MemoryReport::state_bytes,
          &MemoryReport::result_bytes, &MemoryReport::executable_bytes,
          &MemoryReport::artifact_bytes, &MemoryReport::definition_bytes,
          &MemoryReport::waiting_image_bytes, &MemoryReport::pinned_bytes,
          &MemoryReport::budget_bytes, &MemoryReport::available_bytes}) {
      all.*bytes += report.*bytes;
    }
    all.predicted = Sum(all.predicted, report.predicted);
  }
  all.weights.clear();
  for (auto& [name, component] : components) all.weights.push_back(std::move(component));
  return all;
}

}  // namespace latentd::engine
