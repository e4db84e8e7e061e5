// Eviction from memory: over the budget, for a graph that is to be loaded, and by request.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/compiler/instance_cache.h"

namespace latentd::compiler {
namespace {

using Leaving = std::vector<std::shared_ptr<const void>>;

// Nothing for an instance that is being loaded: its thread makes it ready.
void Unload(Instance& instance, Leaving& leaving) {
  if (instance.state != InstanceState::kReady) return;
  leaving.reserve(leaving.size() + 1);  // before anything is moved there
  leaving.push_back(std::exchange(instance.executable, nullptr));
  instance.state = InstanceState::kUnloaded;
}

void Unload(KnownGraph& graph, Leaving& leaving) {
  for (const auto& instance : graph.instances) Unload(*instance, leaving);
}

bool IsReady(const Instance& instance) { return instance.state == InstanceState::kReady; }

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

void InstanceCache::SetUserPinned(const std::string& user, bool pinned) {
  absl::MutexLock lock(&mutex_);
  if (pinned) {
    pinned_.insert(user);
  } else {
    pinned_.erase(user);
  }
}

bool InstanceCache::IsUserPinned(const std::string& user) const {
  absl::MutexLock lock(&mutex_);
  return pinned_.contains(user);
}

bool InstanceCache::MayMakeRoom(const KnownGraph& graph, const Instance& instance,
                                uint64_t unused_since) const {
  if (instance.in_use() || instance.tick > unused_since) return false;
  return !graph.artifact->status().busy() && MayEverMakeRoom(graph, instance);
}

bool InstanceCache::MayEverMakeRoom(const KnownGraph& graph, const Instance& instance) const {
  return IsReady(instance) && !graph.artifact->status().pinned && !IsOfPinned(graph, instance);
}

bool InstanceCache::IsOfPinned(const KnownGraph& graph, const Instance& instance) const {
  const std::vector<std::string> users = graph.UsersOf(instance);
  return std::any_of(users.begin(), users.end(), [this](const std::string& user) {
    mutex_.AssertReaderHeld();
    return pinned_.contains(user);
  });
}

std::map<std::string, uint64_t> InstanceCache::LastUses() const {
  std::map<std::string, uint64_t> uses;
  for (const auto& graph : graphs_) {
    for (const GraphHandle& user : graph->Users()) {
      if (user->instance == nullptr) continue;
      uint64_t& last = uses[user->user];
      last = std::max(last, user->instance->tick);
    }
  }
  return uses;
}

// By the last use of any of its users, then by its own.
InstanceCache::Oldest InstanceCache::FindOldest(uint64_t unused_since) const {
  const std::map<std::string, uint64_t> uses = LastUses();
  Oldest oldest;
  std::pair<uint64_t, uint64_t> least;
  for (const auto& graph : graphs_) {
    for (const auto& instance : graph->instances) {
      if (!MayMakeRoom(*graph, *instance, unused_since)) continue;
      std::pair<uint64_t, uint64_t> last = {0, instance->tick};
      const std::vector<std::string> users = graph->UsersOf(*instance);
      for (const std::string& user : users) last.first = std::max(last.first, uses.at(user));
      if (oldest.graph != nullptr && last >= least) continue;
      least = last;
      oldest = {graph.get(), instance.get(), users.empty() ? "" : users.front()};
    }
  }
  return oldest;
}

uint64_t InstanceCache::MarkWanted(absl::Span<const GraphHandle> graphs) {
  absl::MutexLock lock(&mutex_);
  const uint64_t before = ticks_;
  for (const GraphHandle& graph : graphs) {
    if (graph->graph->HoldsMemory()) Touch(*graph->graph, graph->instance.get());
  }
  return before;
}

absl::Status InstanceCache::CheckRoom(const GraphLabel& label, const backends::MemoryNeeds& needs,
                                      uint64_t evict_unused_since) const {
  if (!services_.options.before_load) return absl::OkStatus();
  return services_.options.before_load(label, needs, EvictionOfAll(evict_unused_since));
}

absl::Status InstanceCache::CheckRoomOnceIdle(const GraphLabel& label,
                                              const backends::MemoryNeeds& needs,
                                              absl::Span<const GraphHandle> kept) const {
  if (!services_.options.before_load) return absl::OkStatus();
  Eviction gone = EvictionOf([&](const KnownGraph& graph, const Instance& instance) {
    mutex_.AssertReaderHeld();
    const auto is_its = [&](const GraphHandle& user) { return user->instance.get() == &instance; };
    return std::none_of(kept.begin(), kept.end(), is_its) && MayEverMakeRoom(graph, instance);
  });
  gone.with_users = true;
  return services_.options.before_load(label, needs, gone);
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

absl::StatusOr<backends::MemoryNeeds> InstanceCache::NeedsFor(const DeclaredGraph& graph,
                                                              const Instance& instance,
                                                              const Artifact& artifact) const {
  {
    absl::MutexLock lock(&mutex_);
    if (instance.needs.has_value()) return *instance.needs;
  }
  return backends::NeedsOf(*artifact.graph, artifact.plan, *graph.weights);
}

absl::Status InstanceCache::MakeRoom(const DeclaredGraph& graph, Instance& instance,
                                     const Artifact& artifact, const Purpose& purpose) {
  const auto& before_load = services_.options.before_load;
  if (!before_load && !purpose.displaces_nothing) return absl::OkStatus();
  ASSIGN_OR_RETURN(const backends::MemoryNeeds needs, NeedsFor(graph, instance, artifact));
  GraphLabel label = graph.definition().label;
  label.model = graph.user;
  if (purpose.displaces_nothing) RETURN_IF_ERROR(CheckBudget(label, needs.executable_bytes));
  if (!before_load) return absl::OkStatus();
  return MakeRoom(label, purpose.evict_unused_since, [&](const Eviction& leaves) {
    absl::Status fits = before_load(label, needs, leaves);
    if (fits.ok()) return fits;
    absl::MutexLock lock(&mutex_);
    instance.SetNeeds(needs);  // for CheckRoom
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
  return EvictionOf([&](const KnownGraph& graph, const Instance& instance) {
    mutex_.AssertReaderHeld();
    return MayMakeRoom(graph, instance, unused_since);
  });
}

Eviction InstanceCache::EvictionOf(MayLeave may_leave) const {
  Eviction gone;
  absl::flat_hash_set<const void*> kept;
  size_t arena = 0, arena_left = 0;
  absl::MutexLock lock(&mutex_);
  for (const auto& graph : graphs_) {
    if (graph->executable_bytes() == 0) continue;
    bool all_leave = true;
    for (const auto& instance : graph->instances) {
      if (instance->executable == nullptr) continue;
      const bool leaves = may_leave(*graph, *instance);
      const std::vector<const void*>& held = instance->executable->info().weights;
      (leaves ? gone.weights : kept).insert(held.begin(), held.end());
      if (leaves) gone.executable_bytes += static_cast<int64_t>(instance->own_bytes());
      all_leave = all_leave && leaves;
    }
    arena = std::max(arena, graph->arena_bytes);
    if (!all_leave) arena_left = std::max(arena_left, graph->arena_bytes);
    const ArtifactStatus artifact = graph->artifact->status();
    if (all_leave && artifact.on_disk) {
      gone.artifact_bytes += static_cast<int64_t>(artifact.memory_bytes);
    }
  }
  for (const void* weight : kept) gone.weights.erase(weight);
  gone.arena_bytes = static_cast<int64_t>(arena - arena_left);
  gone.only_asked = true;
  return gone;
}

bool InstanceCache::EvictOldest(const GraphLabel& for_whom, uint64_t unused_since) {
  GraphLabel evicted;
  {
    Leaving leaving;
    absl::MutexLock lock(&mutex_);
    const Oldest oldest = FindOldest(unused_since);
    if (oldest.graph == nullptr) return false;
    Unload(*oldest.instance, leaving);
    services_.registry.GetCounter(metrics::kGraphCacheEvictions, {"memory_budget"}).Increment();
    // The only copy stays: loading it again shall compile nothing.
    const bool is_last = !oldest.graph->Has(IsReady);
    if (is_last && oldest.graph->artifact->status().on_disk) {
      leaving.push_back(oldest.graph->artifact->TakeOut());
    }
    evicted = oldest.graph->definition().label;
    if (!oldest.user.empty()) evicted.model = oldest.user;
  }
  services_.options.Warn(absl::StrCat("evicted ", evicted.ToText(),
                                      " from memory to make room for ", for_whom.ToText()));
  return true;
}

void InstanceCache::Trim(Leaving& leaving, bool planned_only) {
  const auto may_leave = [this, planned_only, newest = ticks_](const KnownGraph& graph) {
    if (planned_only && graph.artifact->status().state != ArtifactState::kPlanned) return false;
    if (!graph.HoldsMemory() || graph.tick == newest || !graph.IsIdle()) return false;
    return std::none_of(graph.instances.begin(), graph.instances.end(), [&](const auto& instance) {
      mutex_.AssertReaderHeld();
      return IsReady(*instance) && IsOfPinned(graph, *instance);
    });
  };
  while (BytesHeld() > services_.options.memory_budget) {
    KnownGraph* oldest = nullptr;
    for (const auto& graph : graphs_) {
      if ((oldest == nullptr || graph->tick < oldest->tick) && may_leave(*graph)) {
        oldest = graph.get();
      }
    }
    if (oldest == nullptr) break;
    Unload(*oldest, leaving);
    services_.registry.GetCounter(metrics::kGraphCacheEvictions, {"memory_budget"}).Increment();
    leaving.push_back(oldest->artifact->TakeOut());
  }
}

absl::Status InstanceCache::Evict(KnownGraph& graph, bool force,
                                  absl::Span<const std::string> users) {
  Leaving leaving;
  absl::MutexLock lock(&mutex_);
  const auto is_meant = [&](const Instance& instance) {
    const std::vector<std::string> its = graph.UsersOf(instance);
    return users.empty() || std::all_of(its.begin(), its.end(), [&](const std::string& user) {
             return std::find(users.begin(), users.end(), user) != users.end();
           });
  };
  for (const auto& instance : graph.instances) {
    if (force || !instance->in_use() || !is_meant(*instance)) continue;
    return WithReason(absl::FailedPreconditionError(
                          absl::StrCat(graph.definition().label.ToText(), " is in use")),
                      "IN_USE");
  }
  if (!graph.HoldsMemory()) return absl::OkStatus();
  for (const auto& instance : graph.instances) {
    if (is_meant(*instance)) Unload(*instance, leaving);
  }
  const bool is_held = graph.Has([](const Instance& instance) {
    return IsReady(instance) || instance.state == InstanceState::kLoading;
  });
  // A model's next request loads it again, and compiles nothing: the only copy stays.
  if (users.empty() || (!is_held && graph.artifact->status().on_disk)) {
    leaving.push_back(graph.artifact->TakeOut());
  }
  if (leaving.empty()) return absl::OkStatus();
  services_.registry.GetCounter(metrics::kGraphCacheEvictions, {"request"}).Increment();
  return absl::OkStatus();
}

}  // namespace latentd::compiler
