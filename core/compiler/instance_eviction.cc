// Eviction from memory: over the budget, for a graph that is to be loaded, and by request.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/error_facts.h"
#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/compiler/instance_cache.h"

namespace latentd::compiler {
namespace {

// Unloads all but an instance that is being loaded: its thread makes it ready.
void Unload(KnownGraph& graph, std::vector<std::shared_ptr<const void>>& leaving) {
  leaving.reserve(leaving.size() + graph.instances.size());  // before anything is moved there
  for (const auto& instance : graph.instances) {
    if (instance->state != InstanceState::kReady) continue;
    leaving.push_back(std::exchange(instance->executable, nullptr));
    instance->state = InstanceState::kUnloaded;
  }
}

}  // namespace

bool KnownGraph::HoldsMemory() const {
  return executable_bytes() > 0 || artifact->status().memory_bytes > 0;
}

bool KnownGraph::IsIdle() const {
  const ArtifactStatus status = artifact->status();
  return !status.pinned && !status.busy() && !Has([](const Instance& instance) {
    return instance.state == InstanceState::kLoading || instance.in_use();
  });
}

bool KnownGraph::MayMakeRoom(uint64_t unused_since) const {
  return Has([](const Instance& i) { return i.state == InstanceState::kReady; }) &&
         tick <= unused_since && IsIdle();
}

uint64_t InstanceCache::MarkWanted(absl::Span<const GraphHandle> graphs) {
  absl::MutexLock lock(&mutex_);
  const uint64_t before = ticks_;
  for (const GraphHandle& graph : graphs) {
    if (graph->graph->HoldsMemory()) Touch(*graph->graph);
  }
  return before;
}

absl::Status InstanceCache::CheckRoom(const GraphLabel& label, const backends::MemoryNeeds& needs,
                                      uint64_t evict_unused_since) const {
  if (!services_.options.before_load) return absl::OkStatus();
  return services_.options.before_load(label, needs, EvictionOfAll(evict_unused_since));
}

absl::Status InstanceCache::CheckRoom(const DeclaredGraph& graph,
                                      uint64_t evict_unused_since) const {
  backends::MemoryNeeds needs;
  {
    absl::MutexLock lock(&mutex_);
    const Instance* instance = graph.instance.get();
    const bool known = instance != nullptr && instance->needs.has_value();
    if (!known || instance->state == InstanceState::kReady) return absl::OkStatus();
    needs = *instance->needs;
  }
  return CheckRoom(graph.definition().label, needs, evict_unused_since);
}

absl::Status InstanceCache::MakeRoom(const DeclaredGraph& graph, Instance& instance,
                                     const Artifact& artifact, const Purpose& purpose) {
  const auto& before_load = services_.options.before_load;
  if (!before_load && !purpose.displaces_nothing) return absl::OkStatus();
  ASSIGN_OR_RETURN(const backends::MemoryNeeds needs,
                   backends::NeedsOf(*artifact.graph, artifact.plan, *graph.weights));
  const GraphLabel& label = graph.definition().label;
  if (purpose.displaces_nothing) RETURN_IF_ERROR(CheckBudget(label, needs.executable_bytes));
  if (!before_load) return absl::OkStatus();
  return MakeRoom(label, purpose.evict_unused_since, [&](const Eviction& leaves) {
    absl::Status fits = before_load(label, needs, leaves);
    if (fits.ok()) return fits;
    absl::MutexLock lock(&mutex_);
    instance.needs = needs;  // for CheckRoom
    return fits;
  });
}

// One at a time, asking again after each: what it frees is only known once it is gone.
absl::Status InstanceCache::MakeRoom(const GraphLabel& for_whom, uint64_t unused_since,
                                     RoomCheck check) {
  absl::Status fits = check({});
  if (!absl::IsResourceExhausted(fits)) return fits;
  const Eviction all = EvictionOfAll(unused_since);
  if (all.executable_bytes == 0 || !check(all).ok()) return fits;
  while (!fits.ok() && EvictOldest(for_whom, unused_since)) fits = check({});
  return fits;
}

size_t InstanceCache::BytesHeld() const {
  size_t bytes = 0;
  for (const auto& graph : graphs_) {
    bytes += graph->executable_bytes() + graph->artifact->status().memory_bytes;
  }
  return bytes;
}

absl::Status InstanceCache::CheckBudget(const GraphLabel& label, size_t executable_bytes) const {
  const size_t budget = services_.options.memory_budget;
  absl::MutexLock lock(&mutex_);
  const size_t held = BytesHeld();
  if (held + executable_bytes <= budget) return absl::OkStatus();
  return WithMissingBytes(
      OutOfMemoryError(absl::StrCat(label.ToText(), " needs ", executable_bytes,
                                    " bytes more of memory for graphs (--graph-memory); ", held,
                                    " of ", budget, " are held")),
      static_cast<int64_t>(executable_bytes),
      static_cast<int64_t>(budget) - static_cast<int64_t>(held));
}

Eviction InstanceCache::EvictionOfAll(uint64_t unused_since) const {
  Eviction gone;
  absl::flat_hash_set<const void*> kept;
  size_t arena = 0, arena_left = 0;
  absl::MutexLock lock(&mutex_);
  for (const auto& graph : graphs_) {
    if (graph->executable_bytes() == 0) continue;
    const bool leaves = graph->MayMakeRoom(unused_since);
    arena = std::max(arena, graph->arena_bytes);
    if (!leaves) arena_left = std::max(arena_left, graph->arena_bytes);
    for (const auto& instance : graph->instances) {
      if (instance->executable == nullptr) continue;
      const std::vector<const void*>& held = instance->executable->info().weights;
      (leaves ? gone.weights : kept).insert(held.begin(), held.end());
    }
    if (!leaves) continue;
    const ArtifactStatus artifact = graph->artifact->status();
    gone.executable_bytes += graph->executable_bytes();
    if (artifact.on_disk) gone.artifact_bytes += static_cast<int64_t>(artifact.memory_bytes);
  }
  for (const void* weight : kept) gone.weights.erase(weight);
  gone.arena_bytes = static_cast<int64_t>(arena - arena_left);
  return gone;
}

template <typename May>
KnownGraph* InstanceCache::UnloadOldest(May may, Leaving& leaving) {
  KnownGraph* oldest = nullptr;
  for (const auto& graph : graphs_) {
    if ((oldest == nullptr || graph->tick < oldest->tick) && may(*graph)) oldest = graph.get();
  }
  if (oldest == nullptr) return nullptr;
  Unload(*oldest, leaving);
  services_.registry.GetCounter(metrics::kGraphCacheEvictions, {"memory_budget"}).Increment();
  return oldest;
}

bool InstanceCache::EvictOldest(const GraphLabel& for_whom, uint64_t unused_since) {
  std::string evicted;
  {
    Leaving leaving;
    absl::MutexLock lock(&mutex_);
    const auto may_leave = [=](const KnownGraph& graph) { return graph.MayMakeRoom(unused_since); };
    KnownGraph* const oldest = UnloadOldest(may_leave, leaving);
    if (oldest == nullptr) return false;
    // The only copy stays: loading it again shall compile nothing.
    if (oldest->artifact->status().on_disk) leaving.push_back(oldest->artifact->TakeOut());
    evicted = oldest->definition().label.ToText();
  }
  services_.options.Warn(
      absl::StrCat("evicted ", evicted, " from memory to make room for ", for_whom.ToText()));
  return true;
}

void InstanceCache::Trim(Leaving& leaving, bool planned_only) {
  const auto may_leave = [planned_only, newest = ticks_](const KnownGraph& graph) {
    if (planned_only && graph.artifact->status().state != ArtifactState::kPlanned) return false;
    return graph.HoldsMemory() && graph.tick != newest && graph.IsIdle();
  };
  while (BytesHeld() > services_.options.memory_budget) {
    KnownGraph* const oldest = UnloadOldest(may_leave, leaving);
    if (oldest == nullptr) break;
    leaving.push_back(oldest->artifact->TakeOut());
  }
}

absl::Status InstanceCache::Evict(KnownGraph& graph, bool force) {
  Leaving leaving;
  absl::MutexLock lock(&mutex_);
  if (!force && graph.Has([](const Instance& instance) { return instance.in_use(); })) {
    return WithReason(absl::FailedPreconditionError(
                          absl::StrCat(graph.definition().label.ToText(), " is in use")),
                      "IN_USE");
  }
  if (!graph.HoldsMemory()) return absl::OkStatus();
  Unload(graph, leaving);
  leaving.push_back(graph.artifact->TakeOut());
  services_.registry.GetCounter(metrics::kGraphCacheEvictions, {"request"}).Increment();
  return absl::OkStatus();
}

}  // namespace latentd::compiler
