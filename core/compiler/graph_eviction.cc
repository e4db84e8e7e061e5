// GraphStore's room for what is to be loaded: what leaves memory for it.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/compiler/graph_entry.h"

namespace latentd::compiler {

bool GraphStore::Entry::HoldsExecutable() const {
  return std::any_of(loaded.begin(), loaded.end(),
                     [](const auto& one) { return one.second.executable != nullptr; });
}

void GraphStore::Entry::AddWeights(absl::flat_hash_set<const void*>& weights) const {
  for (const auto& [content, one] : loaded) {
    if (one.executable == nullptr) continue;
    const std::vector<const void*> its = one.executable->weights();
    weights.insert(its.begin(), its.end());
  }
}

uint64_t GraphStore::MarkWanted(absl::Span<const GraphRef> graphs) {
  absl::MutexLock lock(&mutex_);
  const uint64_t before = ticks_;
  for (const GraphRef& graph : graphs) {
    if (graph->entry->HoldsMemory()) Touch(*graph->entry);
  }
  return before;
}

absl::Status GraphStore::CheckRoom(const GraphLabel& label, const backends::MemoryNeeds& needs,
                                   uint64_t evict_unused_since) const {
  if (!options_.before_load) return absl::OkStatus();
  return options_.before_load(label, needs, EvictionOfAll(evict_unused_since));
}

absl::Status GraphStore::CheckRoom(const GraphRef& graph, uint64_t evict_unused_since) const {
  backends::MemoryNeeds needs;
  {
    absl::MutexLock lock(&mutex_);
    const Entry& entry = *graph->entry;
    if (!graph->content.has_value()) return absl::OkStatus();
    const auto loaded = entry.loaded.find(*graph->content);
    if (loaded != entry.loaded.end() && loaded->second.executable != nullptr) {
      return absl::OkStatus();
    }
    const auto known = entry.needs.find(*graph->content);
    if (known == entry.needs.end()) return absl::OkStatus();
    needs = known->second;
  }
  return CheckRoom(graph->entry->label, needs, evict_unused_since);
}

// One at a time, asking again after each: what it frees is only known once it is gone.
absl::Status GraphStore::MakeRoom(const Use& use, const backends::MemoryNeeds& needs,
                                  Purpose purpose) {
  const GraphLabel& label = use.entry->label;
  absl::Status fits = options_.before_load(label, needs, {});
  if (fits.ok()) return fits;
  {
    absl::MutexLock lock(&mutex_);
    use.entry->KeepNeeds(*use.content, needs);  // for CheckRoom
  }
  if (!absl::IsResourceExhausted(fits)) return fits;
  const Eviction all = EvictionOfAll(purpose.evict_unused_since);
  if (all.executable_bytes == 0 || !options_.before_load(label, needs, all).ok()) return fits;
  while (!fits.ok() && EvictOldest(label, purpose.evict_unused_since)) {
    fits = options_.before_load(label, needs, {});
  }
  return fits;
}

bool GraphStore::MayBeEvicted(const Entry& entry, uint64_t unused_since) const {
  return entry.HoldsExecutable() && entry.tick <= unused_since && !entry.pinned && !entry.Busy() &&
         !entry.InUse();
}

Eviction GraphStore::EvictionOfAll(uint64_t unused_since) const {
  Eviction gone;
  absl::flat_hash_set<const void*> kept;
  size_t arena = 0, arena_left = 0;
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<Entry>& entry : entries_) {
    if (entry->executable_bytes() == 0) continue;
    arena = std::max(arena, entry->arena_bytes);
    if (!MayBeEvicted(*entry, unused_since)) {
      arena_left = std::max(arena_left, entry->arena_bytes);
      entry->AddWeights(kept);
      continue;
    }
    entry->AddWeights(gone.weights);
    gone.executable_bytes += entry->executable_bytes();
    if (entry->on_disk) gone.artifact_bytes += entry->artifact_bytes();
  }
  for (const void* weight : kept) gone.weights.erase(weight);
  gone.arena_bytes = static_cast<int64_t>(arena - arena_left);
  return gone;
}

bool GraphStore::EvictOldest(const GraphLabel& for_whom, uint64_t unused_since) {
  Leaving leaving;
  std::string evicted;
  {
    absl::MutexLock lock(&mutex_);
    Entry* oldest = nullptr;
    for (const std::shared_ptr<Entry>& entry : entries_) {
      if (!MayBeEvicted(*entry, unused_since)) continue;
      if (oldest == nullptr || entry->tick < oldest->tick) oldest = entry.get();
    }
    if (oldest == nullptr) return false;
    TakeOutExecutables(*oldest, leaving);
    // The only copy stays: loading it again shall compile nothing.
    if (oldest->on_disk) leaving.push_back(std::exchange(oldest->artifact, {}).bytes);
    registry_.GetCounter(metrics::kGraphCacheEvictions, {"memory_budget"}).Increment();
    Publish(*oldest);
    evicted = oldest->label.ToText();
  }
  leaving.clear();
  Warn(absl::StrCat("evicted ", evicted, " from memory to make room for ", for_whom.ToText()));
  return true;
}

}  // namespace latentd::compiler
