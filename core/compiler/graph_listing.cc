// What GraphStore's graphs look like from outside: states, metrics, lists.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/compiler/graph_store.h"

namespace latentd::compiler {
namespace {

const char* Name(GraphState state) {
  constexpr const char* kNames[] = {"cold", "compiling", "compiled", "loading", "ready", "failed"};
  return kNames[static_cast<size_t>(state)];
}

// The graph's state from those of its parts; `ready`: for every user.
GraphState Combine(const ArtifactStatus& artifact, const InstancesStatus& instances, bool ready) {
  if (artifact.state == ArtifactState::kCompiling) return GraphState::kCompiling;
  if (artifact.busy() || instances.loading) return GraphState::kLoading;
  if (ready) return GraphState::kReady;
  if (!artifact.failure.ok() || !instances.failure.ok()) return GraphState::kFailed;
  const bool compiled = artifact.on_disk || artifact.state == ArtifactState::kPresent;
  return compiled || !instances.ready.empty() ? GraphState::kCompiled : GraphState::kCold;
}

}  // namespace

GraphStatus GraphStore::StatusOf(const Entry& entry) const {
  const GraphDefinition& graph = *entry.graph;
  const ArtifactStatus artifact = artifacts_.StatusOf(graph.id);
  const InstancesStatus instances = instances_.StatusOf(graph.id);
  const std::vector<GraphHandle> users = entry.Users();
  const bool ready =
      !users.empty() && std::all_of(users.begin(), users.end(), [&](const GraphHandle& user) {
        const std::optional<Digest> content = user->known_content();
        return content.has_value() && instances.ready.contains(*content);
      });
  GraphStatus status{.id = graph.id.ToString(),
                     .label = graph.label,
                     .state = Combine(artifact, instances, ready),
                     .key = graph.key,
                     .device_bytes = instances.executable_bytes,
                     .arena_bytes = instances.arena_bytes,
                     .memory_bytes = static_cast<int64_t>(artifact.memory_bytes),
                     .compilations = artifact.compilations,
                     .compile_time = artifact.compile_time,
                     .load_time = instances.load_time,
                     .hits = instances.hits,
                     .last_use = instances.last_use,
                     .pinned = artifact.pinned,
                     .in_use = instances.in_use};
  for (const GraphHandle& user : users) {
    const auto end = status.users.end();
    if (std::find(status.users.begin(), end, user->user()) == end) {
      status.users.push_back(user->user());
    }
  }
  if (status.state == GraphState::kFailed) {
    const absl::Status& failure = artifact.failure.ok() ? instances.failure : artifact.failure;
    status.reason = std::string(failure.message());
    status.loadable = artifact.failure.ok() && IsTransient(failure) &&
                      (artifact.on_disk || artifact.state == ArtifactState::kPresent);
  }
  if (status.state == GraphState::kCold) status.reason = artifact.miss;
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
  if (const auto head = files_.Describe(status.key); head.ok()) {
    status.label = head->label;
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
  absl::MutexLock lock(&mutex_);
  list.reserve(entries_.size());
  for (const Entry& entry : entries_) list.push_back(StatusOf(entry));
  return list;
}

std::vector<GraphStatus> GraphStore::List() const {
  std::map<Digest, int64_t> bytes;
  const std::vector<cache::EntryInfo> on_disk = files_.List();
  for (const cache::EntryInfo& info : on_disk) bytes[info.digest] = info.bytes;
  std::vector<GraphStatus> list;
  {
    absl::MutexLock lock(&mutex_);
    for (const Entry& entry : entries_) {
      const auto file = bytes.extract(entry.graph->id);
      artifacts_.NoteOnDisk(entry.graph->id, !file.empty());
      list.push_back(StatusOf(entry));
      if (!file.empty()) list.back().disk_bytes = file.mapped();
    }
  }
  for (const cache::EntryInfo& info : on_disk) {
    if (bytes.contains(info.digest)) list.push_back(StatusOf(info));
  }
  return list;
}

absl::StatusOr<GraphStatus> GraphStore::Find(absl::string_view id) const {
  ASSIGN_OR_RETURN(const GraphKey key, KeyOf(id));
  const std::optional<cache::EntryInfo> on_disk = files_.FindInfo(key);
  artifacts_.NoteOnDisk(key.ToDigest(), on_disk.has_value());
  {
    absl::MutexLock lock(&mutex_);
    if (const Entry* entry = FindEntry(key.ToDigest())) {
      GraphStatus status = StatusOf(*entry);
      status.disk_bytes = on_disk.has_value() ? on_disk->bytes : 0;
      return status;
    }
  }
  if (on_disk.has_value()) return StatusOf(*on_disk);
  return absl::NotFoundError(absl::StrCat("graph ", id, " has left"));
}

GraphStore::Totals GraphStore::totals() const {
  Totals totals{.compilations = artifacts_.compilations(),
                .loads = instances_.loads(),
                .hits = instances_.hits(),
                .compile_time = time_.compile_time(),
                .load_time = time_.load_time(),
                .artifact_bytes = artifacts_.memory_bytes()};
  absl::MutexLock lock(&mutex_);
  for (const Entry& entry : entries_) {
    const InstancesStatus instances = instances_.StatusOf(entry.graph->id);
    totals.executable_bytes += instances.executable_bytes;
    totals.definition_bytes +=
        static_cast<int64_t>(entry.graph->graph_bytes) + instances.needs_bytes;
    if (instances.executable_bytes == 0) continue;
    totals.arena_bytes = std::max(totals.arena_bytes, instances.arena_bytes);
  }
  return totals;
}

void GraphStore::RefreshMetrics() {
  std::vector<GraphKey> keys;
  {
    absl::MutexLock lock(&mutex_);
    for (const Entry& entry : entries_) keys.push_back(entry.graph->key);
  }
  for (const GraphKey& key : keys) artifacts_.NoteOnDisk(key.ToDigest(), files_.Contains(key));
  const Totals held = totals();
  registry_.GetGauge(metrics::kGraphCacheBytes, {"memory"})
      .Set(static_cast<double>(held.executable_bytes + held.artifact_bytes));
  absl::MutexLock lock(&mutex_);
  for (auto& [series, count] : counted_) count = 0;
  for (const Entry& entry : entries_) {
    ++counted_[{entry.graph->label.component, StatusOf(entry).state}];
  }
  for (const auto& [series, count] : counted_) {
    registry_.GetGauge(metrics::kGraphCacheEntries, {series.first, Name(series.second)}).Set(count);
  }
}

}  // namespace latentd::compiler
