// What leaves memory: when the budget is passed, for what is to be loaded, and when it is told to.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/status_macros.h"
#include "core/compiler/instance_cache.h"

namespace latentd::compiler {

uint64_t InstanceCache::MarkWanted(absl::Span<const GraphHandle> graphs) {
  absl::MutexLock lock(&mutex_);
  const uint64_t before = ticks_;
  for (const GraphHandle& graph : graphs) {
    const Digest& id = graph->definition().id;
    if (HoldsMemory(id, graphs_.at(id))) Touch(graphs_.at(id));
  }
  return before;
}

absl::Status InstanceCache::CheckRoom(const GraphLabel& label, const backends::MemoryNeeds& needs,
                                      uint64_t evict_unused_since) const {
  if (!options_.before_load) return absl::OkStatus();
  return options_.before_load(label, needs, EvictionOfAll(evict_unused_since));
}

absl::Status InstanceCache::CheckRoom(const DeclaredGraph& graph,
                                      uint64_t evict_unused_since) const {
  backends::MemoryNeeds needs;
  {
    absl::MutexLock lock(&mutex_);
    const Instance* instance = FindInstance(graph);
    const bool known = instance != nullptr && instance->needs.has_value();
    if (!known || instance->state == InstanceState::kReady) return absl::OkStatus();
    needs = *instance->needs;
  }
  return CheckRoom(graph.definition().label, needs, evict_unused_since);
}

// One at a time, asking again after each: what it frees is only known once it is gone.
absl::Status InstanceCache::MakeRoom(const DeclaredGraph& graph, const Digest& weights,
                                     const Artifact& artifact, const Purpose& purpose) {
  if (!options_.before_load) return absl::OkStatus();
  ASSIGN_OR_RETURN(const backends::MemoryNeeds needs,
                   backends::NeedsOf(*artifact.graph, artifact.plan, *graph.weights()));
  const GraphLabel& label = graph.definition().label;
  absl::Status fits = options_.before_load(label, needs, {});
  if (fits.ok()) return fits;
  {
    absl::MutexLock lock(&mutex_);
    graphs_.at(graph.definition().id).instances[weights].needs = needs;  // for CheckRoom
  }
  if (!absl::IsResourceExhausted(fits)) return fits;
  const Eviction all = EvictionOfAll(purpose.evict_unused_since);
  if (all.executable_bytes == 0 || !options_.before_load(label, needs, all).ok()) return fits;
  while (!fits.ok() && EvictOldest(label, purpose.evict_unused_since)) {
    fits = options_.before_load(label, needs, {});
  }
  return fits;
}

bool InstanceCache::HoldsMemory(const Digest& id, const Graph& graph) const {
  return graph.executable_bytes() > 0 || artifacts_.StatusOf(id).memory_bytes > 0;
}

// Nobody is at it, holds it, or has pinned it.
bool InstanceCache::IsIdle(const Digest& id, const Graph& graph) const {
  const auto taken = [](const Instance& instance) {
    return instance.state == InstanceState::kLoading || instance.in_use();
  };
  const ArtifactStatus artifact = artifacts_.StatusOf(id);
  return !artifact.pinned && !artifact.busy() && !graph.Has(taken);
}

bool InstanceCache::MayBeEvicted(const Digest& id, const Graph& graph,
                                 uint64_t unused_since) const {
  return graph.Has([](const Instance& i) { return i.state == InstanceState::kReady; }) &&
         graph.tick <= unused_since && IsIdle(id, graph);
}

Eviction InstanceCache::EvictionOfAll(uint64_t unused_since) const {
  Eviction gone;
  absl::flat_hash_set<const void*> kept;
  size_t arena = 0, arena_left = 0;
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, graph] : graphs_) {
    if (graph.executable_bytes() == 0) continue;
    const bool leaves = MayBeEvicted(id, graph, unused_since);
    arena = std::max(arena, graph.arena_bytes);
    if (!leaves) arena_left = std::max(arena_left, graph.arena_bytes);
    for (const auto& [weights, instance] : graph.instances) {
      if (instance.executable == nullptr) continue;
      const std::vector<const void*>& held = instance.executable->info().weights;
      (leaves ? gone.weights : kept).insert(held.begin(), held.end());
    }
    if (!leaves) continue;
    const ArtifactStatus artifact = artifacts_.StatusOf(id);
    gone.executable_bytes += graph.executable_bytes();
    if (artifact.on_disk) gone.artifact_bytes += static_cast<int64_t>(artifact.memory_bytes);
  }
  for (const void* weight : kept) gone.weights.erase(weight);
  gone.arena_bytes = static_cast<int64_t>(arena - arena_left);
  return gone;
}

template <typename May>
std::map<Digest, InstanceCache::Graph>::iterator InstanceCache::Oldest(May may) {
  auto oldest = graphs_.end();
  for (auto one = graphs_.begin(); one != graphs_.end(); ++one) {
    if (!may(one->first, one->second)) continue;
    if (oldest == graphs_.end() || one->second.tick < oldest->second.tick) oldest = one;
  }
  return oldest;
}

void InstanceCache::Unload(Graph& graph, Leaving& leaving) {
  for (auto& [weights, instance] : graph.instances) {
    leaving.push_back(std::exchange(instance.executable, nullptr));
    instance.own_bytes = 0;
    if (instance.state == InstanceState::kReady) instance.state = InstanceState::kUnloaded;
  }
}

bool InstanceCache::EvictOldest(const GraphLabel& for_whom, uint64_t unused_since) {
  Leaving leaving;
  std::string evicted;
  {
    absl::MutexLock lock(&mutex_);
    const auto oldest = Oldest([&](const Digest& id, const Graph& graph) ABSL_SHARED_LOCKS_REQUIRED(
                                   mutex_) { return MayBeEvicted(id, graph, unused_since); });
    if (oldest == graphs_.end()) return false;
    Unload(oldest->second, leaving);
    // The only copy stays: loading it again shall compile nothing.
    if (artifacts_.StatusOf(oldest->first).on_disk) {
      leaving.push_back(artifacts_.TakeOut(oldest->first));
    }
    evicted = oldest->second.label.ToText();
  }
  registry_.GetCounter(metrics::kGraphCacheEvictions, {"memory_budget"}).Increment();
  leaving.clear();
  options_.Warn(
      absl::StrCat("evicted ", evicted, " from memory to make room for ", for_whom.ToText()));
  return true;
}

InstanceCache::Leaving InstanceCache::Trim(bool planned_only) {
  Leaving leaving;
  const auto held = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    int64_t bytes = artifacts_.memory_bytes();
    for (const auto& [id, graph] : graphs_) bytes += graph.executable_bytes();
    return bytes;
  };
  const auto may_leave = [&](const Digest& id,
                             const Graph& graph) ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    if (planned_only && artifacts_.StatusOf(id).state != ArtifactState::kPlanned) return false;
    return HoldsMemory(id, graph) && graph.tick != ticks_ && IsIdle(id, graph);
  };
  while (held() > static_cast<int64_t>(options_.memory_budget)) {
    const auto oldest = Oldest(may_leave);
    if (oldest == graphs_.end()) break;
    Unload(oldest->second, leaving);
    leaving.push_back(artifacts_.TakeOut(oldest->first));
    registry_.GetCounter(metrics::kGraphCacheEvictions, {"memory_budget"}).Increment();
  }
  return leaving;
}

absl::Status InstanceCache::Evict(const Digest& id, bool force) {
  Leaving leaving;
  absl::MutexLock lock(&mutex_);
  const auto graph = graphs_.find(id);
  if (graph == graphs_.end()) return absl::OkStatus();
  Graph& known = graph->second;
  if (!force && known.Has([](const Instance& instance) { return instance.in_use(); })) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(known.label.ToText(), " is in use")), "IN_USE");
  }
  if (!HoldsMemory(id, known)) return absl::OkStatus();
  Unload(known, leaving);
  leaving.push_back(artifacts_.TakeOut(id));
  registry_.GetCounter(metrics::kGraphCacheEvictions, {"request"}).Increment();
  return absl::OkStatus();
}

}  // namespace latentd::compiler
