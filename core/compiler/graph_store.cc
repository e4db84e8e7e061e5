#include "core/compiler/graph_store.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/compiler/graph_entry.h"

namespace latentd::compiler {
namespace {

using backends::Executable;

std::vector<device::Buffer> Zeros(const std::vector<backends::Port>& ports) {
  std::vector<device::Buffer> buffers;
  buffers.reserve(ports.size());
  for (const backends::Port& port : ports) {
    buffers.push_back(device::Buffer::Allocate(port.dtype, port.shape));
  }
  return buffers;
}

}  // namespace

bool IsTransient(const absl::Status& failure) {
  return !absl::IsDataLoss(failure) && !absl::IsInvalidArgument(failure) &&
         !absl::IsNotFound(failure) && !absl::IsUnimplemented(failure);
}

GraphStore::GraphStore(backends::Backend& backend, const Clock& clock, metrics::Registry& registry,
                       cache::DiskCache* disk, Options options)
    : backend_(backend),
      clock_(clock),
      registry_(registry),
      disk_(disk),
      options_(std::move(options)) {
  registry_.GetGauge(metrics::kGraphCacheBudget, {"memory"})
      .Set(static_cast<double>(options_.memory_budget));
}

GraphStore::~GraphStore() = default;

std::shared_ptr<GraphStore::Entry> GraphStore::FindEntry(const Digest& id) const {
  for (const std::shared_ptr<Entry>& entry : entries_) {
    if (entry->id == id) return entry;
  }
  return nullptr;
}

bool GraphStore::Knows(const Digest& id) const {
  absl::MutexLock lock(&mutex_);
  return FindEntry(id) != nullptr;
}

GraphStore::GraphRef GraphStore::FindUse(const Entry& entry, const WantedGraph& wanted) const {
  for (GraphRef& use : entry.Users()) {
    if (use->user == wanted.user && use->weights == wanted.weights) return std::move(use);
  }
  return nullptr;
}

GraphStore::GraphRef GraphStore::Declare(const WantedGraph& wanted) {
  backends::Backend& backend = wanted.backend != nullptr ? *wanted.backend : backend_;
  auto declared =
      std::make_shared<Entry>(wanted, KeyOf(*wanted.graph, backend, options_.compile), backend);
  // Without the lock: it asks the disk.
  const bool is_new = !Knows(declared->id);
  const bool on_disk = is_new && disk_.Contains(declared->key);
  const bool pinned = is_new && disk_.IsPinned(declared->key);
  Leaving leaving;
  absl::MutexLock lock(&mutex_);
  declared->on_disk = on_disk;
  declared->pinned = pinned;
  leaving = Forget();
  std::shared_ptr<Entry> entry = FindEntry(declared->id);
  if (entry == nullptr) entry = entries_.emplace_back(std::move(declared));
  if (GraphRef known = FindUse(*entry, wanted)) return known;
  GraphRef use = std::make_shared<Use>(entry, wanted);
  entry->uses.push_back(use);
  Publish(*entry);
  return use;
}

std::string GraphStore::IdOf(const GraphRef& graph) { return graph->entry->id.ToString(); }

const GraphLabel& GraphStore::LabelOf(const GraphRef& graph) { return graph->entry->label; }

size_t GraphStore::DefinitionBytesOf(const GraphRef& graph) { return graph->entry->graph_bytes; }

absl::StatusOr<Digest> GraphStore::ContentOf(Use& use) {
  {
    absl::MutexLock lock(&mutex_);
    if (use.content.has_value()) return *use.content;
  }
  // Without the lock: it may read gigabytes.
  ASSIGN_OR_RETURN(const Digest content, use.weights->ContentDigest(*use.entry->graph));
  absl::MutexLock lock(&mutex_);
  use.content = content;
  return content;
}

absl::StatusOr<GraphStore::ExecutablePointer> GraphStore::Get(const GraphRef& graph,
                                                              Purpose purpose) {
  if (purpose.allow == Allow::kReady) return GetReady(*graph);
  Entry& entry = *graph->entry;
  ASSIGN_OR_RETURN(const Digest weights, ContentOf(*graph));
  ASSIGN_OR_RETURN(ExecutablePointer found, FindOrBegin(entry, weights, purpose.allow));
  if (found != nullptr) return found;
  // Whatever happens, somebody may wait for this to end.
  absl::StatusOr<ExecutablePointer> made = CatchOutOfMemory([&] { return Make(*graph, purpose); });
  Leaving leaving;
  absl::MutexLock lock(&mutex_);
  Loaded& loaded = entry.loaded[weights];
  loaded.loading = false;
  loaded.own_bytes = made.ok() ? (*made)->own_bytes() : 0;
  if (made.ok()) {
    loaded.executable = *made;
    Touch(entry);
  }
  leaving = Trim();
  Publish(entry);
  return made;
}

absl::StatusOr<GraphStore::ExecutablePointer> GraphStore::GetReady(const Use& use) {
  absl::MutexLock lock(&mutex_);
  Entry& entry = *use.entry;
  if (!use.content.has_value()) return Cold(entry);
  const auto found = entry.loaded.find(*use.content);
  if (found == entry.loaded.end() || found->second.executable == nullptr) return Cold(entry);
  return Hit(entry, found->second);
}

absl::StatusOr<GraphStore::ExecutablePointer> GraphStore::FindOrBegin(Entry& entry,
                                                                      const Digest& weights,
                                                                      Allow allow) {
  absl::MutexLock lock(&mutex_);
  const int tries = entry.tries;
  const auto idle = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = entry.loaded.find(weights);
    return found == entry.loaded.end() || !found->second.loading;
  };
  mutex_.Await(absl::Condition(&idle));
  Loaded& loaded = entry.loaded[weights];
  if (loaded.executable != nullptr) {
    Publish(entry);  // another user's may be what makes the entry ready
    return Hit(entry, loaded);
  }
  // Who waited for a try takes what came of it, whatever it wanted to do itself.
  const absl::Status& failure = loaded.failure.ok() ? entry.failure : loaded.failure;
  if (entry.tries != tries && !failure.ok()) return failure;
  if (!loaded.failure.ok() && !IsTransient(loaded.failure) && allow != Allow::kRetry) {
    return loaded.failure;
  }
  loaded.loading = true;
  Publish(entry);
  return nullptr;
}

GraphStore::ExecutablePointer GraphStore::Hit(Entry& entry, const Loaded& loaded) {
  ++totals_.hits;
  ++entry.hits;
  Touch(entry);
  CountLookup(entry, "hit");
  return loaded.executable;
}

absl::StatusOr<GraphStore::ExecutablePointer> GraphStore::Make(const Use& use, Purpose purpose) {
  Entry& entry = *use.entry;
  const absl::Time begin = clock_.Monotonic();
  ASSIGN_OR_RETURN(Got got, GetArtifact(entry, purpose));
  absl::StatusOr<ExecutablePointer> made = LoadFrom(use, got.artifact, purpose);
  // What came from the disk may be bad in a way that no checksum shows.
  if (absl::IsDataLoss(made.status()) && !got.artifact.made_here) {
    Discard(entry, got.artifact, made.status());
    ASSIGN_OR_RETURN(got, GetArtifact(entry, purpose));
    made = LoadFrom(use, got.artifact, purpose);
  }
  absl::MutexLock lock(&mutex_);
  ++entry.tries;
  entry.loaded[*use.content].failure = made.status();
  if (made.ok()) {
    registry_.GetHistogram(metrics::kGraphReadySeconds, {entry.label.component, got.source})
        .Observe(absl::ToDoubleSeconds(clock_.Monotonic() - begin));
  }
  return made;
}

// Zeros are valid as tokens and positions too.
absl::Status GraphStore::RunOnZeros(Executable& executable) const {
  const std::vector<device::Buffer> inputs = Zeros(executable.inputs());
  std::vector<device::Buffer> outputs = Zeros(executable.outputs());
  return executable.Run(inputs, absl::MakeSpan(outputs));
}

absl::StatusOr<GraphStore::ExecutablePointer> GraphStore::LoadFrom(const Use& use,
                                                                   const Bytes& artifact,
                                                                   Purpose purpose) {
  CountThreads(/*compilers=*/0, /*loaders=*/1);
  const absl::Cleanup count = [this] { CountThreads(/*compilers=*/0, /*loaders=*/-1); };
  ExecutablePointer executable;
  absl::Duration took;
  {
    absl::MutexLock lock(&loading_);
    const absl::Time begin = clock_.Monotonic();
    ASSIGN_OR_RETURN(executable, LoadOnly(use, artifact, purpose));
    took = clock_.Monotonic() - begin;
  }
  if (options_.run_once) {
    absl::MutexLock lock(&first_runs_);
    const absl::Time begin = clock_.Monotonic();
    RETURN_IF_ERROR(RunOnZeros(*executable));
    took += clock_.Monotonic() - begin;
  }
  absl::MutexLock lock(&mutex_);
  use.entry->load_time = took;
  ++totals_.loads;
  return executable;
}

absl::StatusOr<GraphStore::ExecutablePointer> GraphStore::LoadOnly(const Use& use,
                                                                   const Bytes& artifact,
                                                                   Purpose purpose) {
  Entry& entry = *use.entry;
  ASSIGN_OR_RETURN(const CompiledGraph compiled, Open(*artifact.bytes, entry.key));
  RETURN_IF_ERROR(CheckSamePorts(*entry.graph, *compiled.graph));
  backends::Backend::Admission admit;
  if (options_.before_load) {
    admit = [&](const backends::MemoryNeeds& needs)
                ABSL_EXCLUSIVE_LOCKS_REQUIRED(loading_) { return MakeRoom(use, needs, purpose); };
  }
  ASSIGN_OR_RETURN(ExecutablePointer executable,
                   entry.backend.LoadIf(compiled.graph, compiled.plan, *use.weights, admit));
  absl::MutexLock lock(&mutex_);
  entry.arena_bytes = executable->arena_bytes();
  entry.loaded[*use.content].own_bytes = executable->own_bytes();
  return executable;
}

void GraphStore::CountThreads(int compilers, int loaders) {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = clock_.Monotonic();
  if (compilers_ > 0) {
    totals_.compile_time += now - counted_since_;
  } else if (loaders_ > 0) {
    totals_.load_time += now - counted_since_;
  }
  counted_since_ = now;
  compilers_ += compilers;
  loaders_ += loaders;
}

GraphStore::Totals GraphStore::totals() const {
  absl::MutexLock lock(&mutex_);
  Totals totals = totals_;
  for (const std::shared_ptr<Entry>& entry : entries_) {
    totals.executable_bytes += entry->executable_bytes();
    totals.artifact_bytes += entry->artifact_bytes();
    totals.definition_bytes += entry->definition_bytes();
    if (entry->executable_bytes() == 0) continue;
    totals.arena_bytes = std::max(totals.arena_bytes, static_cast<int64_t>(entry->arena_bytes));
  }
  return totals;
}

}  // namespace latentd::compiler
