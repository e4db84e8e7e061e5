// GraphStore's graphs as seen from outside: lists and metrics.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/compiler/graph_store.h"

namespace latentd::compiler {
namespace {

const char* Name(GraphState state) {
  constexpr const char* kNames[] = {"cold", "compiling", "compiled", "loading", "ready", "failed"};
  return kNames[static_cast<size_t>(state)];
}

}  // namespace

GraphStatus GraphStore::StatusOf(const KnownGraph& graph, const cache::EntryInfo* on_disk) const {
  graph.artifact->NoteOnDisk(on_disk != nullptr);
  GraphStatus status = instances_.StatusOf(graph);
  if (on_disk != nullptr) status.disk_bytes = on_disk->bytes;
  return status;
}

GraphStatus GraphStore::StatusOf(const cache::EntryInfo& on_disk) const {
  GraphStatus status{.id = on_disk.digest.ToString(),
                     .state = GraphState::kCompiled,
                     .key = GraphKey::FromText(on_disk.key),
                     .disk_bytes = on_disk.bytes,
                     .last_use = on_disk.last_use,
                     .pinned = on_disk.pinned};
  absl::Status usable = CheckKey(status.key);
  if (const auto head = services_.files.Describe(status.key); head.ok()) {
    status.label = head->label.value_or(GraphLabel());
    status.compile_time = head->compile_time;
  } else if (absl::IsFailedPrecondition(head.status())) {
    usable.Update(head.status());
  } else {
    usable = absl::DataLossError(absl::StrCat("the file is damaged: ", head.status().message(),
                                              "; verifying this graph sets it aside"));
  }
  if (usable.ok()) return status;
  status.state = GraphState::kCold;
  status.reason = std::string(usable.message());
  return status;
}

std::vector<GraphStatus> GraphStore::Declared() const {
  std::vector<GraphStatus> list;
  for (const GraphPointer& graph : instances_.graphs()) list.push_back(instances_.StatusOf(*graph));
  return list;
}

std::vector<GraphStatus> GraphStore::List() const {
  std::vector<GraphStatus> list;
  std::vector<cache::EntryInfo> on_disk = services_.files.List();
  for (const GraphPointer& graph : instances_.graphs()) {
    const auto file = std::find_if(on_disk.begin(), on_disk.end(), [&](const auto& info) {
      return info.digest == graph->definition().id;
    });
    list.push_back(StatusOf(*graph, file == on_disk.end() ? nullptr : &*file));
    if (file != on_disk.end()) on_disk.erase(file);
  }
  for (const cache::EntryInfo& info : on_disk) list.push_back(StatusOf(info));
  return list;
}

absl::StatusOr<GraphStatus> GraphStore::Find(absl::string_view id) const {
  ASSIGN_OR_RETURN(const GraphEntry named, Resolve(id));
  const std::optional<cache::EntryInfo> on_disk = services_.files.FindInfo(named.key());
  if (named.graph != nullptr) return StatusOf(*named.graph, on_disk ? &*on_disk : nullptr);
  if (on_disk.has_value()) return StatusOf(*on_disk);
  return absl::NotFoundError(absl::StrCat("graph ", id, " has left"));
}

// Holds no artifact, by which DropUnused tells who is at a graph: a disk that hangs keeps no graph
// from leaving.
void GraphStore::LookAtDisk() {
  for (const GraphPointer& graph : instances_.graphs()) graph->artifact->LookAtDisk();
}

void GraphStore::RefreshMetrics() {
  const Totals held = totals();
  services_.registry.GetGauge(metrics::kGraphCacheBytes, {"memory"})
      .Set(static_cast<double>(held.executable_bytes + held.artifact_bytes));
  absl::MutexLock lock(&mutex_);
  for (auto& [series, count] : counted_) count = 0;
  for (const GraphStatus& status : Declared()) {
    ++counted_[{status.label.model, status.label.component, status.state}];
  }
  for (const auto& [series, count] : counted_) {
    const auto& [model, component, state] = series;
    services_.registry.GetGauge(metrics::kGraphCacheEntries, {model, component, Name(state)})
        .Set(count);
  }
}

}  // namespace latentd::compiler
