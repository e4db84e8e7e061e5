#include "core/compiler/instance_cache.h"

#include <algorithm>
#include <utility>

#include "core/backends/bound_graph.h"
#include "core/base/error_details.h"
#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"

namespace latentd::compiler {
namespace {

// Of the metric of times.
const char* Name(ArtifactSource source) {
  constexpr const char* kNames[] = {"memory_load", "disk_load", "compile"};
  return kNames[static_cast<size_t>(source)];
}

// Nothing was tried: who waited may be allowed more.
bool WasRefused(const absl::Status& status) {
  const std::string reason = latentd::GetReason(status);
  return reason == "GRAPH_COLD" || reason == "COMPILE_FORBIDDEN";
}

size_t BytesOf(const backends::MemoryNeeds& needs) {
  // A node of a map has four words beside what it holds.
  constexpr size_t kNodeBytes = 4 * sizeof(void*) + sizeof(std::pair<std::string, size_t>);
  size_t bytes = 0;
  for (const auto* results : {&needs.weights, &needs.making}) {
    for (const auto& [key, size] : *results) bytes += kNodeBytes + key.capacity();
  }
  return bytes;
}

}  // namespace

bool IsTransient(const absl::Status& failure) {
  return !absl::IsDataLoss(failure) && !absl::IsInvalidArgument(failure) &&
         !absl::IsNotFound(failure) && !absl::IsUnimplemented(failure);
}

int64_t InstanceCache::Graph::executable_bytes() const {
  size_t bytes = 0;
  for (const auto& [weights, instance] : instances) bytes += instance.own_bytes;
  return static_cast<int64_t>(bytes);
}

bool InstanceCache::Graph::Has(bool (*what)(const Instance&)) const {
  return std::any_of(instances.begin(), instances.end(),
                     [what](const auto& one) { return what(one.second); });
}

void InstanceCache::Declare(const GraphDefinition& graph) {
  absl::MutexLock lock(&mutex_);
  graphs_[graph.id].label = graph.label;
}

const InstanceCache::Instance* InstanceCache::FindInstance(const DeclaredGraph& graph) const {
  const std::optional<Digest> weights = graph.known_content();
  const auto found = graphs_.find(graph.definition().id);
  if (!weights.has_value() || found == graphs_.end()) return nullptr;
  const auto instance = found->second.instances.find(*weights);
  return instance == found->second.instances.end() ? nullptr : &instance->second;
}

absl::StatusOr<ExecutablePointer> InstanceCache::Get(const DeclaredGraph& graph,
                                                     const Purpose& purpose) {
  if (purpose.mode == GetMode::kReady) return GetReady(graph);
  ASSIGN_OR_RETURN(const Digest weights, graph.Content());
  ASSIGN_OR_RETURN(ExecutablePointer found, FindOrBegin(graph.definition(), weights, purpose.mode));
  if (found != nullptr) return found;
  // Whatever happens, somebody may wait for this to end.
  absl::StatusOr<ExecutablePointer> made =
      CatchOutOfMemory([&] { return FindAndLoad(graph, weights, purpose); });
  Leaving leaving;
  absl::MutexLock lock(&mutex_);
  Graph& known = graphs_.at(graph.definition().id);
  Instance& instance = known.instances[weights];
  instance.outcome = made.status();
  if (!WasRefused(made.status())) ++instance.tries;
  instance.own_bytes = made.ok() ? (*made)->info().own_bytes : 0;
  if (made.ok()) {
    instance.executable = *made;
    instance.state = InstanceState::kReady;
    Touch(known);
  } else {
    instance.state = instance.failure.ok() ? InstanceState::kUnloaded : InstanceState::kFailed;
  }
  leaving = Trim();
  return made;
}

absl::StatusOr<ExecutablePointer> InstanceCache::GetReady(const DeclaredGraph& graph) {
  {
    absl::MutexLock lock(&mutex_);
    const Instance* instance = FindInstance(graph);
    if (instance != nullptr && instance->state == InstanceState::kReady) {
      return Hit(graphs_.at(graph.definition().id), *instance);
    }
  }
  return artifacts_.Cold(graph.definition());
}

absl::StatusOr<ExecutablePointer> InstanceCache::FindOrBegin(const GraphDefinition& graph,
                                                             const Digest& weights, GetMode mode) {
  absl::MutexLock lock(&mutex_);
  Graph& known = graphs_.at(graph.id);
  const int tries = known.instances[weights].tries;
  const auto idle = [&] {
    const auto found = known.instances.find(weights);
    return found == known.instances.end() || found->second.state != InstanceState::kLoading;
  };
  mutex_.Await(absl::Condition(&idle));
  Instance& instance = known.instances[weights];
  if (instance.state == InstanceState::kReady) return Hit(known, instance);
  // Who waited for a try takes what came of it, whatever it wanted to do itself.
  if (instance.tries != tries && !instance.outcome.ok()) return instance.outcome;
  const bool stands = !instance.failure.ok() && !IsTransient(instance.failure);
  if (stands && mode != GetMode::kRetry) return instance.failure;
  instance.state = InstanceState::kLoading;
  return nullptr;
}

ExecutablePointer InstanceCache::Hit(Graph& graph, const Instance& instance) {
  ++hits_;
  ++graph.hits;
  Touch(graph);
  registry_.GetCounter(metrics::kGraphCacheLookups, {graph.label.component, "hit"}).Increment();
  return instance.executable;
}

void InstanceCache::Touch(Graph& graph) {
  graph.tick = ++ticks_;
  graph.last_use = clock_.Wall();
}

absl::StatusOr<ExecutablePointer> InstanceCache::FindAndLoad(const DeclaredGraph& graph,
                                                             const Digest& weights,
                                                             const Purpose& purpose) {
  const GraphDefinition& definition = graph.definition();
  const absl::Time begin = clock_.Monotonic();
  const auto load = [&](const Artifact& artifact) {
    return CatchOutOfMemory([&] { return Load(graph, weights, artifact, purpose); });
  };
  ASSIGN_OR_RETURN(ArtifactStore::Found found, artifacts_.Get(definition, purpose));
  absl::StatusOr<ExecutablePointer> loaded = load(*found.artifact);
  // What came from the disk may be bad in a way that no checksum shows.
  if (absl::IsDataLoss(loaded.status()) &&
      artifacts_.Discard(definition, found.artifact, loaded.status())) {
    ASSIGN_OR_RETURN(found, artifacts_.Get(definition, purpose));
    loaded = load(*found.artifact);
  }
  if (loaded.ok()) {
    registry_
        .GetHistogram(metrics::kGraphReadySeconds, {definition.label.component, Name(found.source)})
        .Observe(absl::ToDoubleSeconds(clock_.Monotonic() - begin));
  }
  absl::MutexLock lock(&mutex_);
  graphs_.at(definition.id).instances[weights].failure = loaded.status();
  return loaded;
}

absl::StatusOr<ExecutablePointer> InstanceCache::Load(const DeclaredGraph& graph,
                                                      const Digest& weights,
                                                      const Artifact& artifact,
                                                      const Purpose& purpose) {
  const GraphDefinition& definition = graph.definition();
  const WorkTime::Scope scope(time_, WorkTime::Kind::kLoading);
  ExecutablePointer executable;
  absl::Duration took;
  {
    absl::MutexLock lock(&loading_);
    const absl::Time begin = clock_.Monotonic();
    RETURN_IF_ERROR(MakeRoom(graph, weights, artifact, purpose));
    ASSIGN_OR_RETURN(executable,
                     definition.backend.Load(artifact.graph, artifact.plan, *graph.weights()));
    took = clock_.Monotonic() - begin;
    absl::MutexLock held(&mutex_);
    Graph& known = graphs_.at(definition.id);
    known.arena_bytes = executable->info().arena_bytes;
    known.instances[weights].own_bytes = executable->info().own_bytes;
  }
  if (options_.run_once) {
    absl::MutexLock lock(&first_runs_);
    const absl::Time begin = clock_.Monotonic();
    RETURN_IF_ERROR(RunOnZeros(executable));
    took += clock_.Monotonic() - begin;
  }
  absl::MutexLock lock(&mutex_);
  graphs_.at(definition.id).load_time = took;
  ++loads_;
  return executable;
}

// Zeros are valid as tokens and positions too.
absl::Status InstanceCache::RunOnZeros(const ExecutablePointer& executable) const {
  ASSIGN_OR_RETURN(backends::BoundGraph zeros, backends::BoundGraph::Create(executable));
  ASSIGN_OR_RETURN(const auto stream, executable->device().NewStream(clock_));
  RETURN_IF_ERROR(zeros.Enqueue(*stream));
  return stream->Synchronize();
}

absl::StatusOr<backends::MemoryNeeds> InstanceCache::NeedsOf(const DeclaredGraph& graph) {
  const auto of = [&](const Artifact& artifact) {
    return backends::NeedsOf(*artifact.graph, artifact.plan, *graph.weights());
  };
  ASSIGN_OR_RETURN(ArtifactPointer artifact, artifacts_.GetToPredict(graph.definition()));
  absl::StatusOr<backends::MemoryNeeds> needs = of(*artifact);
  // What came from the disk may be bad in a way that no checksum shows.
  if (!absl::IsDataLoss(needs.status())) return needs;
  if (!artifacts_.Discard(graph.definition(), artifact, needs.status())) return needs;
  ASSIGN_OR_RETURN(artifact, artifacts_.GetToPredict(graph.definition()));
  return of(*artifact);
}

absl::StatusOr<backends::MemoryNeeds> InstanceCache::Predict(const DeclaredGraph& graph) {
  ASSIGN_OR_RETURN(const Digest weights, graph.Content());
  {
    absl::MutexLock lock(&mutex_);
    const Instance* instance = FindInstance(graph);
    if (instance != nullptr && instance->needs.has_value()) return *instance->needs;
  }
  ASSIGN_OR_RETURN(const backends::MemoryNeeds needs, NeedsOf(graph));
  Leaving leaving;
  absl::MutexLock lock(&mutex_);
  Graph& known = graphs_.at(graph.definition().id);
  known.instances[weights].needs = needs;
  known.tick = ++ticks_;  // the newest, but nobody has used it
  leaving = Trim(/*planned_only=*/true);
  return needs;
}

void InstanceCache::Retain(const Digest& id, const std::set<Digest>& contents, Leaving& leaving) {
  absl::MutexLock lock(&mutex_);
  const auto graph = graphs_.find(id);
  if (graph == graphs_.end()) return;
  std::map<Digest, Instance>& instances = graph->second.instances;
  for (auto one = instances.begin(); one != instances.end();) {
    if (one->second.state == InstanceState::kLoading || contents.contains(one->first)) {
      ++one;
      continue;
    }
    leaving.push_back(std::move(one->second.executable));
    one = instances.erase(one);
  }
}

void InstanceCache::Forget(const Digest& id) {
  absl::MutexLock lock(&mutex_);
  graphs_.erase(id);
}

void InstanceCache::NoteNewArtifact(const Digest& id) {
  Leaving leaving;
  absl::MutexLock lock(&mutex_);
  const auto graph = graphs_.find(id);
  if (graph == graphs_.end()) return;
  for (auto& [weights, instance] : graph->second.instances) {
    instance.needs.reset();
    instance.failure = absl::OkStatus();
    if (instance.state == InstanceState::kFailed) instance.state = InstanceState::kUnloaded;
  }
  Touch(graph->second);
  leaving = Trim();
}

InstancesStatus InstanceCache::StatusOf(const Digest& id) const {
  InstancesStatus status;
  absl::MutexLock lock(&mutex_);
  const auto found = graphs_.find(id);
  if (found == graphs_.end()) return status;
  const Graph& graph = found->second;
  for (const auto& [weights, instance] : graph.instances) {
    if (instance.state == InstanceState::kLoading) status.loading = true;
    if (instance.state == InstanceState::kReady) status.ready.insert(weights);
    if (status.failure.ok()) status.failure = instance.failure;
    if (instance.in_use()) status.in_use = true;
    if (instance.needs.has_value()) {
      status.needs_bytes += static_cast<int64_t>(BytesOf(*instance.needs));
    }
  }
  status.executable_bytes = graph.executable_bytes();
  status.arena_bytes = static_cast<int64_t>(graph.arena_bytes);
  status.load_time = graph.load_time;
  status.hits = graph.hits;
  status.last_use = graph.last_use;
  return status;
}

int64_t InstanceCache::loads() const {
  absl::MutexLock lock(&mutex_);
  return loads_;
}

int64_t InstanceCache::hits() const {
  absl::MutexLock lock(&mutex_);
  return hits_;
}

}  // namespace latentd::compiler
