#include "core/compiler/artifact_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/compiler/compile.h"

namespace latentd::compiler {
namespace {

// Of compiling: the next try would come to the same.
bool Stands(const absl::Status& failure) {
  return !failure.ok() && !absl::IsResourceExhausted(failure);
}

// Of the metric of look-ups.
const char* Name(ArtifactFiles::Result result) {
  constexpr const char* kNames[] = {"disk", "miss", "incompatible", "corrupt"};
  return kNames[static_cast<size_t>(result)];
}

const char* Name(Reason reason) {
  constexpr const char* kNames[] = {"startup", "warm", "cold_request", "retry"};
  return kNames[static_cast<size_t>(reason)];
}

}  // namespace

void ArtifactStore::Declare(const Digest& id, bool on_disk, bool pinned) {
  absl::MutexLock lock(&mutex_);
  Slot& slot = slots_[id];
  slot.disk = on_disk ? OnDisk::kYes : OnDisk::kNo;
  slot.pinned = pinned;
}

ArtifactPointer ArtifactStore::Forget(const Digest& id) {
  absl::MutexLock lock(&mutex_);
  const auto slot = slots_.find(id);
  if (slot == slots_.end()) return nullptr;
  ArtifactPointer artifact = std::move(slot->second.artifact);
  slots_.erase(slot);
  return artifact;
}

ArtifactStore::Slot* ArtifactStore::FindSlot(const Digest& id) {
  const auto found = slots_.find(id);
  return found == slots_.end() ? nullptr : &found->second;
}

ArtifactStore::Slot& ArtifactStore::AwaitIdle(const Digest& id) {
  Slot& slot = slots_.at(id);
  const auto idle = [&slot] {
    return slot.state != ArtifactState::kSearching && slot.state != ArtifactState::kCompiling;
  };
  mutex_.Await(absl::Condition(&idle));
  return slot;
}

ArtifactPointer ArtifactStore::FindInMemory(const Digest& id) {
  absl::MutexLock lock(&mutex_);
  const Slot* slot = FindSlot(id);
  return slot != nullptr && !slot->planned ? slot->artifact : nullptr;
}

ArtifactState ArtifactStore::RestingState(const Slot& slot) {
  if (slot.artifact != nullptr) {
    return slot.planned ? ArtifactState::kPlanned : ArtifactState::kPresent;
  }
  return slot.failure.ok() ? ArtifactState::kAbsent : ArtifactState::kFailed;
}

void ArtifactStore::Put(Slot& slot, ArtifactPointer artifact) {
  slot.bytes = artifact == nullptr ? 0 : MemoryBytes(*artifact);
  if (artifact != nullptr) slot.compile_time = artifact->compile_time;
  slot.artifact = std::move(artifact);
  slot.planned = false;
  slot.failure = absl::OkStatus();
  slot.miss.clear();
}

absl::StatusOr<ArtifactStore::Found> ArtifactStore::Get(const GraphDefinition& graph,
                                                        const Purpose& purpose) {
  {
    absl::MutexLock lock(&mutex_);
    const int tries = slots_.at(graph.id).tries;
    Slot& slot = AwaitIdle(graph.id);
    if (slot.state == ArtifactState::kPresent) {
      CountLookup(graph, "memory");
      return Found{slot.artifact, ArtifactSource::kMemory};
    }
    const bool waited = slot.tries != tries;  // who waited for a try takes what came of it
    if (waited && !slot.failure.ok()) return slot.failure;
    if (purpose.mode == GetMode::kCompile && Stands(slot.failure)) return slot.failure;
    slot.state = ArtifactState::kSearching;
  }
  absl::StatusOr<Found> found = CatchOutOfMemory([&] { return FindOrCompile(graph, purpose); });
  absl::MutexLock lock(&mutex_);
  Slot& slot = slots_.at(graph.id);
  if (found.ok()) {
    slot.compiled_here = found->source == ArtifactSource::kCompiled;
    Put(slot, found->artifact);
  }
  slot.state = RestingState(slot);
  return found;
}

absl::StatusOr<ArtifactStore::Found> ArtifactStore::FindOrCompile(const GraphDefinition& graph,
                                                                  const Purpose& purpose) {
  if (ArtifactPointer found = FindOnDisk(graph)) return Found{found, ArtifactSource::kDisk};
  RETURN_IF_ERROR(CheckMayCompile(graph, purpose.mode));
  ASSIGN_OR_RETURN(CompileLock lock, LockForCompiling(graph));
  // Another process may have compiled it since.
  if (lock != nullptr && files_.Contains(graph.key)) {
    if (ArtifactPointer found = FindOnDisk(graph)) return Found{found, ArtifactSource::kDisk};
  }
  ArtifactPointer artifact;
  {
    absl::MutexLock held(&mutex_);
    artifact = slots_.at(graph.id).artifact;  // of a prediction
  }
  if (artifact == nullptr) {
    ASSIGN_OR_RETURN(artifact, CompileNow(graph));
  }
  Adopt(graph, artifact, purpose.reason, std::move(lock));
  return Found{std::move(artifact), ArtifactSource::kCompiled};
}

absl::StatusOr<ArtifactPointer> ArtifactStore::GetToPredict(const GraphDefinition& graph) {
  {
    absl::MutexLock lock(&mutex_);
    Slot& slot = AwaitIdle(graph.id);
    if (slot.artifact != nullptr) return slot.artifact;
    if (Stands(slot.failure)) return slot.failure;
    slot.state = ArtifactState::kSearching;
  }
  bool compiled = false;
  absl::StatusOr<ArtifactPointer> found =
      CatchOutOfMemory([&]() -> absl::StatusOr<ArtifactPointer> {
        if (ArtifactPointer on_disk = FindOnDisk(graph, Lookup::kOfPrediction)) return on_disk;
        compiled = true;
        return CompileNow(graph);
      });
  absl::MutexLock lock(&mutex_);
  Slot& slot = slots_.at(graph.id);
  if (found.ok() && compiled) {  // what is on disk need not be in memory too
    Put(slot, *found);
    slot.planned = slot.compiled_here = true;
  }
  slot.state = RestingState(slot);
  return found;
}

absl::Status ArtifactStore::CheckMayCompile(const GraphDefinition& graph, GetMode mode) const {
  absl::Status cold = Cold(graph);
  if (mode == GetMode::kLoad) return cold;
  if (!compiling_forbidden_) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          cold.message(),
          "; it would have to be compiled, which this server does not do after its start "
          "(--forbid-compile-after-ready)")),
      "COMPILE_FORBIDDEN");
}

absl::StatusOr<ArtifactStore::CompileLock> ArtifactStore::LockForCompiling(
    const GraphDefinition& graph) const {
  if (!options_.save || !files_.available()) return nullptr;
  absl::StatusOr<cache::KeyLock> lock =
      files_.Lock(graph.key, options_.compile_wait, options_.stop);
  if (lock.ok()) return std::make_shared<cache::KeyLock>(*std::move(lock));
  if (absl::IsCancelled(lock.status())) return std::move(lock).status();
  if (absl::IsDeadlineExceeded(lock.status())) {
    options_.Warn(absl::StrCat(graph.label.ToText(), " has been compiled by another process for ",
                               absl::FormatDuration(options_.compile_wait),
                               ", which may hang; it is compiled here too"));
  }
  return nullptr;  // a directory that cannot be written gives no locks, and takes no artifact
}

ArtifactPointer ArtifactStore::FindOnDisk(const GraphDefinition& graph, Lookup lookup) {
  {
    absl::MutexLock lock(&mutex_);
    if (slots_.at(graph.id).disk == OnDisk::kUnusable) return nullptr;
  }
  ArtifactFiles::Found found = files_.Find(graph);
  if (lookup == Lookup::kCounts || !found.reason.empty()) CountLookup(graph, Name(found.result));
  if (found.result == ArtifactFiles::Result::kIncompatible) {
    registry_.GetCounter(metrics::kGraphCacheLoadFailures, {"incompatible"}).Increment();
  }
  if (!found.reason.empty()) {
    options_.Warn(absl::StrCat(graph.label.ToText(), ": ", found.reason));
  }
  absl::MutexLock lock(&mutex_);
  Slot& slot = slots_.at(graph.id);
  slot.disk = found.artifact != nullptr ? OnDisk::kYes : OnDisk::kNo;
  if (found.artifact == nullptr) slot.miss = std::move(found.reason);
  return std::move(found.artifact);
}

absl::StatusOr<ArtifactPointer> ArtifactStore::CompileNow(const GraphDefinition& graph) {
  {
    absl::MutexLock lock(&mutex_);
    slots_.at(graph.id).state = ArtifactState::kCompiling;
  }
  metrics::Gauge& in_progress = registry_.GetGauge(metrics::kGraphCompilesInProgress);
  in_progress.Increment();
  absl::StatusOr<ArtifactPointer> compiled = CatchOutOfMemory([&] {
    const WorkTime::Scope scope(time_, WorkTime::Kind::kCompiling);
    return Compile(graph.key, graph.label, *graph.graph, graph.backend, options_.compile, clock_);
  });
  in_progress.Decrement();
  if (!compiled.ok()) {
    registry_.GetCounter(metrics::kGraphCompileFailures, {graph.label.component}).Increment();
  }
  absl::MutexLock lock(&mutex_);
  Slot& slot = slots_.at(graph.id);
  ++slot.tries;
  slot.failure = compiled.status();
  return compiled;
}

void ArtifactStore::Adopt(const GraphDefinition& graph, const ArtifactPointer& artifact,
                          Reason reason, CompileLock lock) {
  registry_.GetCounter(metrics::kGraphCompilations, {graph.label.component, Name(reason)})
      .Increment();
  {
    absl::MutexLock held(&mutex_);
    ++slots_.at(graph.id).compilations;
    ++compilations_;
  }
  if (options_.save && files_.available()) Keep(artifact, std::move(lock));
}

void ArtifactStore::Keep(const ArtifactPointer& artifact, CompileLock lock) {
  auto write = [this, artifact, lock = std::move(lock)]() mutable {
    const absl::Status written = CatchOutOfMemory([&] { return Write(*artifact); });
    lock.reset();
    if (written.ok()) return;
    options_.Warn(
        absl::StrCat(artifact->label.ToText(), " is not kept on disk: ", written.message()));
  };
  if (!options_.write) return write();
  options_.write(MemoryBytes(*artifact), std::move(write));
}

absl::Status ArtifactStore::Write(const Artifact& artifact) {
  RETURN_IF_ERROR(files_.Write(artifact));
  bool pinned = false;
  {
    absl::MutexLock lock(&mutex_);
    if (Slot* slot = FindSlot(artifact.key.ToDigest())) {
      slot->disk = OnDisk::kYes;
      pinned = slot->pinned;
    }
  }
  return pinned ? files_.SetPinned(artifact.key, true) : absl::OkStatus();
}

bool ArtifactStore::Discard(const GraphDefinition& graph, const ArtifactPointer& bad,
                            const absl::Status& why) {
  {
    absl::MutexLock lock(&mutex_);
    Slot& slot = slots_.at(graph.id);
    if (slot.artifact != bad) return true;  // somebody else did
    if (slot.compiled_here) return false;
    Put(slot, nullptr);
    slot.disk = OnDisk::kUnusable;
    slot.miss = absl::StrCat("what was on disk does not load: ", why.message());
    slot.state = RestingState(slot);
  }
  CountLookup(graph, "corrupt");
  const absl::Status aside = files_.SetAside(graph.key);
  options_.Warn(absl::StrCat(graph.label.ToText(), " on disk does not load: ", why.message(),
                             aside.ok() ? "" : "; it cannot be set aside: ", aside.message()));
  return true;
}

absl::Status ArtifactStore::Cold(const GraphDefinition& graph) const {
  const std::string miss = StatusOf(graph.id).miss;
  return WithReason(absl::FailedPreconditionError(absl::StrCat(
                        graph.label.ToText(), " is not ready", miss.empty() ? "" : ": ", miss)),
                    "GRAPH_COLD");
}

void ArtifactStore::CountLookup(const GraphDefinition& graph, const char* result) {
  registry_.GetCounter(metrics::kGraphCacheLookups, {graph.label.component, result}).Increment();
}

ArtifactStatus ArtifactStore::StatusOf(const Digest& id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = slots_.find(id);
  if (found == slots_.end()) return {};
  const Slot& slot = found->second;
  return {.state = slot.state,
          .on_disk = slot.disk == OnDisk::kYes,
          .pinned = slot.pinned,
          .memory_bytes = slot.bytes,
          .compilations = slot.compilations,
          .compile_time = slot.compile_time,
          .failure = slot.failure,
          .miss = slot.miss};
}

int64_t ArtifactStore::memory_bytes() const {
  absl::MutexLock lock(&mutex_);
  size_t bytes = 0;
  for (const auto& [id, slot] : slots_) bytes += slot.bytes;
  return static_cast<int64_t>(bytes);
}

int64_t ArtifactStore::compilations() const {
  absl::MutexLock lock(&mutex_);
  return compilations_;
}

ArtifactPointer ArtifactStore::TakeOut(const Digest& id) {
  absl::MutexLock lock(&mutex_);
  Slot* slot = FindSlot(id);
  if (slot == nullptr || slot->state != RestingState(*slot)) return nullptr;
  slot->bytes = 0;
  slot->planned = false;
  ArtifactPointer artifact = std::exchange(slot->artifact, nullptr);
  slot->state = RestingState(*slot);
  return artifact;
}

void ArtifactStore::TakeIn(const ArtifactPointer& artifact) {
  absl::MutexLock lock(&mutex_);
  Slot* slot = FindSlot(artifact->key.ToDigest());
  if (slot == nullptr) return;
  slot->disk = files_.available() ? OnDisk::kYes : OnDisk::kNo;
  slot->failure = absl::OkStatus();
  slot->miss.clear();
  const bool idle = slot->state == RestingState(*slot) || slot->state == ArtifactState::kFailed;
  if (!idle) return;
  if (!files_.available() && slot->artifact == nullptr) {
    slot->compiled_here = false;
    Put(*slot, artifact);
  }
  slot->state = RestingState(*slot);
}

void ArtifactStore::NoteOnDisk(const Digest& id, bool on_disk) {
  absl::MutexLock lock(&mutex_);
  Slot* slot = FindSlot(id);
  if (slot == nullptr || slot->disk == OnDisk::kUnusable) return;
  slot->disk = on_disk ? OnDisk::kYes : OnDisk::kNo;
}

void ArtifactStore::NoteRemoved(const Digest& id) {
  absl::MutexLock lock(&mutex_);
  Slot* slot = FindSlot(id);
  if (slot == nullptr) return;
  slot->disk = OnDisk::kNo;
  slot->pinned = false;  // the pin goes with the file
}

void ArtifactStore::SetPinned(const Digest& id, bool pinned) {
  absl::MutexLock lock(&mutex_);
  if (Slot* slot = FindSlot(id)) slot->pinned = pinned;
}

}  // namespace latentd::compiler
