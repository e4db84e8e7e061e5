// What GraphStore's entries look like from outside: states, metrics, lists.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/status_macros.h"
#include "core/compiler/graph_entry.h"

namespace latentd::compiler {
namespace {

const char* Name(GraphState state) {
  switch (state) {
    case GraphState::kCold:
      return "cold";
    case GraphState::kCompiling:
      return "compiling";
    case GraphState::kCompiled:
      return "compiled";
    case GraphState::kLoading:
      return "loading";
    case GraphState::kReady:
      return "ready";
    case GraphState::kFailed:
      return "failed";
  }
  return "";
}

}  // namespace

absl::Status GraphStore::FailureOf(const Entry& entry) const {
  if (!entry.failure.ok()) return entry.failure;
  for (const auto& [weights, one] : entry.loaded) {
    if (!one.failure.ok()) return one.failure;
  }
  return absl::OkStatus();
}

GraphState GraphStore::StateOf(const Entry& entry) const {
  if (entry.work == Entry::Work::kCompiling) return GraphState::kCompiling;
  if (entry.Busy()) return GraphState::kLoading;
  const auto ready = [&](const GraphRef& use) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found =
        use->content.has_value() ? entry.loaded.find(*use->content) : entry.loaded.end();
    return found != entry.loaded.end() && found->second.executable != nullptr;
  };
  const std::vector<GraphRef> users = entry.Users();
  if (!users.empty() && std::all_of(users.begin(), users.end(), ready)) return GraphState::kReady;
  if (!FailureOf(entry).ok()) return GraphState::kFailed;
  return entry.on_disk || entry.HoldsMemory() ? GraphState::kCompiled : GraphState::kCold;
}

void GraphStore::Uncount(Entry& entry) {
  if (!entry.counted.has_value()) return;
  registry_.GetGauge(metrics::kGraphCacheEntries, {entry.label.component, Name(*entry.counted)})
      .Decrement();
  entry.counted.reset();
}

void GraphStore::Publish(Entry& entry) {
  if (entry.forgotten) return;
  Uncount(entry);
  entry.counted = StateOf(entry);
  registry_.GetGauge(metrics::kGraphCacheEntries, {entry.label.component, Name(*entry.counted)})
      .Increment();
  registry_.GetGauge(metrics::kGraphCacheBytes, {"memory"}).Set(static_cast<double>(HeldBytes()));
}

void GraphStore::CountLookup(const Entry& entry, const char* result) {
  registry_.GetCounter(metrics::kGraphCacheLookups, {entry.label.component, result}).Increment();
}

void GraphStore::Warn(absl::string_view what) const {
  if (options_.on_warning) options_.on_warning(what);
}

GraphInfo GraphStore::InfoOf(const Entry& entry) const {
  GraphInfo info{.id = entry.id.ToString(), .label = entry.label, .state = StateOf(entry)};
  for (const GraphRef& use : entry.Users()) {
    if (std::find(info.users.begin(), info.users.end(), use->user) == info.users.end()) {
      info.users.push_back(use->user);
    }
  }
  if (info.state == GraphState::kFailed) {
    info.reason = std::string(FailureOf(entry).message());
    info.loadable = entry.failure.ok() && IsTransient(FailureOf(entry)) &&
                    (entry.on_disk || entry.artifact.bytes != nullptr);
  }
  if (info.state == GraphState::kCold) info.reason = entry.miss;
  info.key = entry.key;
  info.device_bytes = entry.executable_bytes();
  info.arena_bytes = static_cast<int64_t>(entry.arena_bytes);
  info.memory_bytes = entry.artifact_bytes();
  info.compilations = entry.compilations;
  info.compile_time = entry.compile_time;
  info.load_time = entry.load_time;
  info.hits = entry.hits;
  info.last_use = entry.last_use;
  info.pinned = entry.pinned;
  info.in_use = entry.InUse();
  return info;
}

std::vector<cache::EntryInfo> GraphStore::SyncWithDisk() const {
  std::vector<cache::EntryInfo> on_disk = disk_.List();
  absl::flat_hash_set<Digest> ids;
  for (const cache::EntryInfo& info : on_disk) ids.insert(info.digest);
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<Entry>& entry : entries_) {
    entry->on_disk = ids.contains(entry->id) && !entry->distrusted;
  }
  return on_disk;
}

void GraphStore::RefreshMetrics() {
  std::vector<std::shared_ptr<Entry>> entries;
  {
    absl::MutexLock lock(&mutex_);
    entries = entries_;
  }
  for (const std::shared_ptr<Entry>& entry : entries) {
    const bool on_disk = disk_.Contains(entry->key);
    absl::MutexLock lock(&mutex_);
    entry->on_disk = on_disk && !entry->distrusted;
    Publish(*entry);
  }
}

GraphInfo GraphStore::InfoOf(const cache::EntryInfo& on_disk) const {
  GraphInfo info{.id = on_disk.digest.ToString(), .state = GraphState::kCompiled};
  info.key = GraphKey::OfEntry(on_disk.key);
  const DiskArtifacts::Description description = disk_.Describe(info.key);
  info.label = description.label;
  info.compile_time = description.compile_time;
  info.disk_bytes = on_disk.bytes;
  info.last_use = on_disk.last_use;
  info.pinned = on_disk.pinned;
  if (const absl::Status usable = CheckKey(info.key); !usable.ok()) {
    info.state = GraphState::kCold;
    info.reason = std::string(usable.message());
  }
  if (!description.damage.empty()) {
    info.state = GraphState::kCold;
    info.reason = absl::StrCat("the file is damaged: ", description.damage,
                               "; verifying this graph sets it aside");
  }
  return info;
}

std::vector<GraphInfo> GraphStore::Declared() const {
  std::vector<GraphInfo> list;
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<Entry>& entry : entries_) list.push_back(InfoOf(*entry));
  return list;
}

std::vector<GraphInfo> GraphStore::List() const {
  const std::vector<cache::EntryInfo> on_disk = SyncWithDisk();
  std::vector<GraphInfo> list = Declared();
  const size_t declared = list.size();
  for (const cache::EntryInfo& entry : on_disk) {
    const std::string id = entry.digest.ToString();
    const auto end = list.begin() + static_cast<std::ptrdiff_t>(declared);
    const auto found =
        std::find_if(list.begin(), end, [&](const GraphInfo& info) { return info.id == id; });
    if (found == end) {
      list.push_back(InfoOf(entry));
    } else {
      found->disk_bytes = entry.bytes;
    }
  }
  return list;
}

absl::StatusOr<GraphInfo> GraphStore::Find(absl::string_view id) const {
  ASSIGN_OR_RETURN(const Named named, Resolve(id));
  const std::optional<cache::EntryInfo> on_disk = disk_.FindInfo(named.key);
  if (named.entry == nullptr && on_disk.has_value()) return InfoOf(*on_disk);
  if (named.entry == nullptr) return absl::NotFoundError(absl::StrCat("graph ", id, " has left"));
  absl::MutexLock lock(&mutex_);
  named.entry->on_disk = on_disk.has_value() && !named.entry->distrusted;
  GraphInfo info = InfoOf(*named.entry);
  info.disk_bytes = on_disk.has_value() ? on_disk->bytes : 0;
  return info;
}

}  // namespace latentd::compiler
