#include "core/engine/pool_reports.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace latentd::engine {
namespace {

State MergedState(absl::Span<const ServerStatus> statuses) {
  for (State state :
       {State::kFailed, State::kDraining, State::kLoading, State::kWarming, State::kDegraded}) {
    const auto is_in = [&](const ServerStatus& status) { return status.state == state; };
    if (absl::c_any_of(statuses, is_in)) return state;
  }
  return State::kReady;
}

// Reasons of the devices that are in that state; without their names where all say the same.
std::string MergedReason(absl::Span<const std::string> devices,
                         absl::Span<const ServerStatus> statuses, State state) {
  std::set<std::string> different;
  std::vector<std::string> reasons;
  for (size_t i = 0; i < statuses.size(); ++i) {
    const bool in_state = statuses[i].state == state;
    different.insert(in_state ? statuses[i].reason : "");
    if (!in_state || statuses[i].reason.empty()) continue;
    reasons.push_back(absl::StrCat(devices[i], ": ", statuses[i].reason));
  }
  return different.size() == 1 ? *different.begin() : absl::StrJoin(reasons, "; ");
}

std::vector<ServerStatus::Bucket> MergedBuckets(absl::Span<const ServerStatus> statuses) {
  std::vector<ServerStatus::Bucket> all;
  for (const ServerStatus& status : statuses) {
    for (const ServerStatus::Bucket& bucket : status.buckets) {
      const auto same = [&](const ServerStatus::Bucket& other) {
        return other.size == bucket.size;
      };
      const auto found = absl::c_find_if(all, same);
      if (found == all.end()) {
        all.push_back(bucket);
      } else if (bucket.ready) {
        *found = bucket;
      }
    }
  }
  return all;
}

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

std::string DeviceName(int ordinal) { return absl::StrCat("device ", ordinal); }

absl::Status OfDevice(absl::string_view device, const absl::Status& status) {
  if (status.ok()) return status;
  absl::Status named(status.code(), absl::StrCat(device, ": ", status.message()));
  status.ForEachPayload(
      [&](absl::string_view type, const absl::Cord& payload) { named.SetPayload(type, payload); });
  return named;
}

void MergeStatus(absl::Span<const std::string> devices, absl::Span<const ServerStatus> statuses,
                 ServerStatus& all) {
  all.state = MergedState(statuses);
  all.reason = MergedReason(devices, statuses, all.state);
  all.buckets = MergedBuckets(statuses);
  all.graphs_done = all.graphs_total = 0;
  all.device_fault.clear();
  ServerStatus::GraphCount shared_steps;
  size_t through = 0;
  for (size_t i = 0; i < statuses.size(); ++i) {
    const ServerStatus& status = statuses[i];
    all.graphs_done += status.graphs_done;
    all.graphs_total += status.graphs_total;
    if (all.device_fault.empty() && !status.device_fault.empty()) {
      all.device_fault = absl::StrCat(devices[i], ": ", status.device_fault);
    }
    if (!status.shared_steps.has_value()) continue;
    ++through;
    shared_steps.ready += status.shared_steps->ready;
    shared_steps.total += status.shared_steps->total;
  }
  all.shared_steps.reset();
  if (through == statuses.size()) all.shared_steps = shared_steps;
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
         {&MemoryReport::weight_bytes, &MemoryReport::mapped_bytes, &MemoryReport::arena_bytes,
          &MemoryReport::state_bytes, &MemoryReport::result_bytes, &MemoryReport::executable_bytes,
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
