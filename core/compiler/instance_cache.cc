#include "core/compiler/instance_cache.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/backends/bound_graph.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/device/device_fault.h"

namespace latentd::compiler {
namespace {

// Label of the metric of times.
const char* Name(ArtifactSource source) {
  constexpr const char* kNames[] = {"memory_load", "disk_load", "compile"};
  return kNames[static_cast<size_t>(source)];
}

// Nothing was tried: who waited may be allowed more.
bool WasRefused(const absl::Status& status) {
  const std::string reason = latentd::GetReason(status);
  return reason == "GRAPH_COLD" || reason == "COMPILE_FORBIDDEN";
}

// True if loading may succeed the next time with the same artifact and the same weights: see
// Backend::Load for what the codes say.
bool IsTransient(const absl::Status& failure) {
  return !absl::IsDataLoss(failure) && !absl::IsInvalidArgument(failure) &&
         !absl::IsNotFound(failure) && !absl::IsUnimplemented(failure);
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

// Zeros are valid as tokens and positions too.
absl::Status RunOnZeros(const ExecutablePointer& executable, const Clock& clock) {
  ASSIGN_OR_RETURN(backends::BoundGraph zeros, backends::BoundGraph::Create(executable));
  ASSIGN_OR_RETURN(const auto stream, executable->device().NewStream(clock));
  RETURN_IF_ERROR(zeros.Enqueue(*stream));
  return stream->Synchronize();
}

absl::StatusOr<backends::MemoryNeeds> NeedsOf(const DeclaredGraph& graph) {
  ArtifactSlot& slot = *graph.graph->artifact;
  absl::StatusOr<backends::MemoryNeeds> needs;
  ArtifactPointer artifact;
  // Artifacts from the disk may be bad in a way that no checksum shows.
  do {
    ASSIGN_OR_RETURN(artifact, slot.GetToPredict());
    needs = backends::NeedsOf(*artifact->graph, artifact->plan, *graph.weights);
  } while (absl::IsDataLoss(needs.status()) && slot.Discard(artifact, needs.status()));
  return needs;
}

bool Is(const Instance* instance, InstanceState state) {
  return instance != nullptr && instance->state == state;
}

// The state by the instances of its users; null for one that nothing asked for yet.
GraphState StateOf(const ArtifactStatus& artifact, const std::set<const Instance*>& instances) {
  const auto any = [&](InstanceState state) {
    return std::any_of(instances.begin(), instances.end(),
                       [state](const Instance* instance) { return Is(instance, state); });
  };
  const bool ready = !instances.empty() &&
                     std::all_of(instances.begin(), instances.end(), [](const Instance* instance) {
                       return Is(instance, InstanceState::kReady);
                     });
  if (artifact.state == ArtifactState::kCompiling) return GraphState::kCompiling;
  if (artifact.busy() || any(InstanceState::kLoading)) return GraphState::kLoading;
  if (ready) return GraphState::kReady;
  if (any(InstanceState::kFailed) || !artifact.failure.ok()) return GraphState::kFailed;
  const bool loaded = any(InstanceState::kReady);
  return artifact.can_be_had() || loaded ? GraphState::kCompiled : GraphState::kCold;
}

}  // namespace

void Instance::SetNeeds(backends::MemoryNeeds known) {
  needs_bytes = BytesOf(known);
  needs = std::move(known);
}

std::vector<GraphHandle> KnownGraph::Users() const {
  std::vector<GraphHandle> alive;
  for (const auto& user : users) {
    if (GraphHandle handle = user.lock()) alive.push_back(std::move(handle));
  }
  return alive;
}

std::vector<std::string> KnownGraph::UsersOf(const Instance& instance) const {
  std::vector<std::string> names;
  for (const GraphHandle& user : Users()) {
    if (user->instance.get() == &instance) names.push_back(user->user);
  }
  return names;
}

bool KnownGraph::Has(bool (*what)(const Instance&)) const {
  return std::any_of(instances.begin(), instances.end(),
                     [what](const auto& instance) { return what(*instance); });
}

int64_t KnownGraph::executable_bytes() const {
  size_t bytes = 0;
  for (const auto& instance : instances) bytes += instance->own_bytes();
  return static_cast<int64_t>(bytes);
}

std::shared_ptr<KnownGraph> InstanceCache::FindLocked(const Digest& id) const {
  for (const auto& graph : graphs_) {
    if (graph->definition().id == id) return graph;
  }
  return nullptr;
}

std::shared_ptr<KnownGraph> InstanceCache::Find(const Digest& id) const {
  absl::MutexLock lock(&mutex_);
  return FindLocked(id);
}

std::vector<std::shared_ptr<KnownGraph>> InstanceCache::graphs() const {
  absl::MutexLock lock(&mutex_);
  return graphs_;
}

std::vector<GraphHandle> InstanceCache::UsersOf(const KnownGraph& graph) const {
  absl::MutexLock lock(&mutex_);
  return graph.Users();
}

GraphHandle InstanceCache::Declare(const GraphSpec& spec, GraphDefinition definition) {
  // Graphs without a handle go first: one that is declared again is new then.
  DropUnused();
  std::shared_ptr<KnownGraph> graph = Find(definition.id);
  if (graph == nullptr) {  // without the lock: it asks the disk
    graph = std::make_shared<KnownGraph>(
        std::make_shared<ArtifactSlot>(std::move(definition), services_));
  }
  absl::MutexLock lock(&mutex_);
  if (const auto known = FindLocked(graph->definition().id)) {
    graph = known;
  } else {
    graphs_.push_back(graph);
  }
  const std::string& name = spec.user.empty() ? spec.label.model : spec.user;
  for (GraphHandle& user : graph->Users()) {
    if (user->user == name && user->weights == spec.weights) return std::move(user);
  }
  auto handle = std::make_shared<const DeclaredGraph>(
      DeclaredGraph{.graph = graph, .user = name, .weights = spec.weights});
  graph->users.push_back(handle);
  return handle;
}

// Threads that use a graph or an instance have a handle; a pending write has the artifact.
void InstanceCache::DropUnused() {
  Leaving leaving;
  absl::MutexLock lock(&mutex_);
  for (const auto& graph : graphs_) {
    std::erase_if(graph->users, [](const auto& user) { return user.expired(); });
    leaving.reserve(leaving.size() + graph->instances.size());  // before anything is moved there
    std::erase_if(graph->instances, [&](std::shared_ptr<Instance>& instance) {
      if (instance.use_count() > 1) return false;
      leaving.push_back(std::move(instance));
      return true;
    });
  }
  leaving.reserve(leaving.size() + graphs_.size());
  std::erase_if(graphs_, [&](std::shared_ptr<KnownGraph>& graph) {
    if (!graph->users.empty() || graph->artifact.use_count() > 1) return false;
    leaving.push_back(std::move(graph));
    return true;
  });
}

absl::StatusOr<Instance*> InstanceCache::InstanceOf(const DeclaredGraph& graph) {
  {
    absl::MutexLock lock(&mutex_);
    if (graph.instance != nullptr) return graph.instance.get();
  }
  ASSIGN_OR_RETURN(const Digest content, graph.weights->ContentDigest(*graph.definition().graph));
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<Instance>>& instances = graph.graph->instances;
  auto found = std::find_if(instances.begin(), instances.end(),
                            [&](const auto& instance) { return instance->weights == content; });
  if (found == instances.end()) {
    found = instances.insert(found, std::make_shared<Instance>(Instance{.weights = content}));
  }
  graph.instance = *found;
  return found->get();
}

absl::StatusOr<ExecutablePointer> InstanceCache::Get(const DeclaredGraph& graph,
                                                     const Purpose& purpose) {
  if (purpose.mode == GetMode::kReady) return GetReady(graph);
  ASSIGN_OR_RETURN(Instance* const instance, InstanceOf(graph));
  ASSIGN_OR_RETURN(ExecutablePointer found, FindOrBegin(*graph.graph, *instance, purpose.mode));
  if (found != nullptr) return found;
  bool tried = false;
  // A border: it ends in any case, since other threads may wait for it.
  absl::StatusOr<ExecutablePointer> made =
      CatchOutOfMemory([&] { return FindAndLoad(graph, *instance, purpose, tried); });
  Leaving leaving;
  absl::MutexLock lock(&mutex_);
  instance->outcome = made.status();
  if (made.ok()) {
    instance->state = InstanceState::kReady;
    Touch(*graph.graph, instance);
  } else {
    const bool failed = tried && !device::IsFault(made.status());
    instance->state = failed ? InstanceState::kFailed : InstanceState::kUnloaded;
    leaving.push_back(std::exchange(instance->executable, nullptr));
  }
  Trim(leaving);
  return made;
}

absl::StatusOr<ExecutablePointer> InstanceCache::GetReady(const DeclaredGraph& graph) {
  {
    absl::MutexLock lock(&mutex_);
    Instance* instance = graph.instance.get();
    if (instance != nullptr && instance->state == InstanceState::kReady) {
      return Hit(*graph.graph, *instance);
    }
  }
  return graph.graph->artifact->Cold();
}

absl::StatusOr<ExecutablePointer> InstanceCache::FindOrBegin(KnownGraph& graph, Instance& instance,
                                                             GetMode mode) {
  absl::MutexLock lock(&mutex_);
  const auto idle = [&instance] { return instance.state != InstanceState::kLoading; };
  const bool waits = !idle();
  mutex_.Await(absl::Condition(&idle));
  if (instance.state == InstanceState::kReady) return Hit(graph, instance);
  // Waiters share the result of the try they waited for, in whatever mode they asked for it.
  if (waits && !instance.outcome.ok() && !WasRefused(instance.outcome)) return instance.outcome;
  const bool stands = instance.state == InstanceState::kFailed && !IsTransient(instance.outcome);
  if (stands && mode != GetMode::kRetry) return instance.outcome;
  instance.state = InstanceState::kLoading;
  return nullptr;
}

ExecutablePointer InstanceCache::Hit(KnownGraph& graph, Instance& instance) {
  ++hits_;
  ++graph.hits;
  Touch(graph, &instance);
  services_.registry
      .GetCounter(metrics::kGraphCacheLookups,
                  {graph.definition().label.model, graph.definition().label.component, "hit"})
      .Increment();
  return instance.executable;
}

void InstanceCache::Touch(KnownGraph& graph, Instance* instance) {
  graph.tick = ++ticks_;
  graph.last_use = services_.clock.Wall();
  if (instance == nullptr) return;
  instance->tick = ticks_;
  instance->last_use = graph.last_use;
}

absl::StatusOr<ExecutablePointer> InstanceCache::FindAndLoad(const DeclaredGraph& graph,
                                                             Instance& instance,
                                                             const Purpose& purpose, bool& tried) {
  ArtifactSlot& artifact = *graph.graph->artifact;
  const absl::Time begin = services_.clock.Monotonic();
  absl::StatusOr<ExecutablePointer> loaded;
  ArtifactSlot::Answer found;
  // Artifacts from the disk may be bad in a way that no checksum shows.
  do {
    tried = false;
    ASSIGN_OR_RETURN(found, artifact.Get(purpose));
    tried = true;
    loaded = Load(graph, instance, found.artifact, purpose);
  } while (absl::IsDataLoss(loaded.status()) && Discard(graph, found.artifact, loaded.status()));
  if (loaded.ok()) {
    services_.registry
        .GetHistogram(metrics::kGraphReadySeconds,
                      {graph.definition().label.model, graph.definition().label.component,
                       Name(found.source)})
        .Observe(absl::ToDoubleSeconds(services_.clock.Monotonic() - begin));
  }
  return loaded;
}

bool InstanceCache::Discard(const DeclaredGraph& graph, const ArtifactPointer& artifact,
                            const absl::Status& why) {
  if (!graph.graph->artifact->Discard(artifact, why)) return false;
  absl::MutexLock lock(&mutex_);
  for (const auto& instance : graph.graph->instances) instance->needs.reset();
  return true;
}

absl::StatusOr<ExecutablePointer> InstanceCache::Load(const DeclaredGraph& graph,
                                                      Instance& instance,
                                                      const ArtifactPointer& artifact,
                                                      const Purpose& purpose) {
  const WorkTime::Scope scope(services_.time, WorkTime::Kind::kLoading);
  ExecutablePointer executable;
  absl::Duration took;
  {
    absl::MutexLock lock(&loading_);
    const absl::Time begin = services_.clock.Monotonic();
    RETURN_IF_ERROR(MakeRoom(graph, instance, *artifact, purpose));
    ASSIGN_OR_RETURN(executable, graph.definition().backend.Load(artifact->graph, artifact->plan,
                                                                 *graph.weights));
    took = services_.clock.Monotonic() - begin;
    absl::MutexLock held(&mutex_);
    graph.graph->arena_bytes = executable->info().arena_bytes;
    instance.executable = executable;
  }
  if (services_.options.run_once) {
    RETURN_IF_ERROR(RunFirst(*graph.graph, artifact, executable, took));
  }
  absl::MutexLock lock(&mutex_);
  graph.graph->load_time = instance.load_time = took;
  ++loads_;
  return executable;
}

absl::Status InstanceCache::RunFirst(KnownGraph& graph, const ArtifactPointer& artifact,
                                     const ExecutablePointer& executable, absl::Duration& took) {
  {
    absl::MutexLock lock(&mutex_);
    if (graph.ran.lock() == artifact) return absl::OkStatus();
  }
  absl::MutexLock first(&first_runs_);
  const absl::Time begin = services_.clock.Monotonic();
  RETURN_IF_ERROR(RunOnZeros(executable, services_.clock));
  took += services_.clock.Monotonic() - begin;
  absl::MutexLock lock(&mutex_);
  graph.ran = artifact;
  return absl::OkStatus();
}

absl::StatusOr<backends::MemoryNeeds> InstanceCache::Predict(const DeclaredGraph& graph) {
  ASSIGN_OR_RETURN(Instance* const instance, InstanceOf(graph));
  {
    absl::MutexLock lock(&mutex_);
    if (instance->needs.has_value()) return *instance->needs;
  }
  ASSIGN_OR_RETURN(const backends::MemoryNeeds needs, NeedsOf(graph));
  Leaving leaving;
  absl::MutexLock lock(&mutex_);
  instance->SetNeeds(needs);
  graph.graph->tick = ++ticks_;  // the newest, though not used yet
  Trim(leaving, /*planned_only=*/true);
  return needs;
}

void InstanceCache::NoteNewArtifact(KnownGraph& graph) {
  Leaving leaving;
  absl::MutexLock lock(&mutex_);
  for (const auto& instance : graph.instances) {
    instance->needs.reset();
    if (instance->state == InstanceState::kFailed) instance->state = InstanceState::kUnloaded;
  }
  Touch(graph);
  Trim(leaving);
}

GraphStatus InstanceCache::StatusOf(const KnownGraph& graph, const DeclaredGraph* only) const {
  const GraphDefinition& definition = graph.definition();
  absl::MutexLock lock(&mutex_);
  const ArtifactStatus artifact = graph.artifact->status();
  GraphStatus status{.id = definition.id.ToString(),
                     .label = definition.label,
                     .key = definition.key,
                     .device_bytes = graph.executable_bytes(),
                     .arena_bytes = static_cast<int64_t>(graph.arena_bytes),
                     .memory_bytes = static_cast<int64_t>(artifact.memory_bytes),
                     .compilations = artifact.compilations,
                     .compile_time = artifact.compile_time,
                     .load_time = graph.load_time,
                     .hits = graph.hits,
                     .last_use = graph.last_use,
                     .pinned = artifact.pinned,
                     .in_use = graph.Has([](const Instance& i) { return i.in_use(); })};
  std::set<const Instance*> counted;  // null: one that nothing asked for
  for (const GraphHandle& user : graph.Users()) {
    const auto end = status.users.end();
    if (std::find(status.users.begin(), end, user->user) == end) status.users.push_back(user->user);
    if (only == nullptr || user.get() == only) counted.insert(user->instance.get());
  }
  if (only != nullptr) {
    const Instance* instance = only->instance.get();
    status.last_use = instance == nullptr ? absl::InfinitePast() : instance->last_use;
    status.load_time = instance == nullptr ? absl::ZeroDuration() : instance->load_time;
  }
  status.state = StateOf(artifact, counted);
  if (status.state == GraphState::kCold) status.reason = artifact.miss;
  if (status.state != GraphState::kFailed) return status;
  absl::Status failure = artifact.failure;
  for (const Instance* instance : counted) {
    if (Is(instance, InstanceState::kFailed)) failure.Update(instance->outcome);
  }
  status.reason = std::string(failure.message());
  status.loadable = artifact.failure.ok() && IsTransient(failure) && artifact.can_be_had();
  return status;
}

StoreTotals InstanceCache::totals() const {
  StoreTotals totals{.compilations = services_.compilations,
                     .compile_time = services_.time.compile_time(),
                     .load_time = services_.time.load_time()};
  absl::MutexLock lock(&mutex_);
  totals.loads = loads_;
  totals.hits = hits_;
  for (const auto& graph : graphs_) {
    const int64_t executable_bytes = graph->executable_bytes();
    totals.executable_bytes += executable_bytes;
    const ArtifactStatus artifact = graph->artifact->status();
    totals.artifact_bytes += static_cast<int64_t>(artifact.memory_bytes + artifact.unwritten_bytes);
    totals.definition_bytes += static_cast<int64_t>(graph->definition().graph_bytes);
    for (const auto& instance : graph->instances) {
      if (instance->needs.has_value()) {
        totals.definition_bytes += static_cast<int64_t>(instance->needs_bytes);
      }
    }
    if (executable_bytes == 0) continue;
    totals.arena_bytes = std::max(totals.arena_bytes, static_cast<int64_t>(graph->arena_bytes));
  }
  return totals;
}

}  // namespace latentd::compiler
