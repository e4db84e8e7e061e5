#include "core/compiler/artifact_slot.h"

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/compiler/compile.h"
#include "core/device/device_fault.h"

namespace latentd::compiler {
namespace {

// True for permanent compile errors: the next try would fail with the same.
bool Stands(const absl::Status& failure) {
  return !failure.ok() && !absl::IsResourceExhausted(failure);
}

// Label of the look-up metric for the outcome of reading the disk.
const char* ResultOf(const absl::Status& read) {
  if (read.ok()) return "disk";
  if (absl::IsDataLoss(read)) return "corrupt";
  return absl::IsFailedPrecondition(read) ? "incompatible" : "miss";
}

const char* Name(Reason reason) {
  constexpr const char* kNames[] = {"startup", "warm", "cold_request", "retry"};
  return kNames[static_cast<size_t>(reason)];
}

}  // namespace

ArtifactSlot::ArtifactSlot(GraphDefinition graph, StoreServices& services)
    : graph_(std::move(graph)), services_(services) {
  status_.on_disk = services_.files.Contains(graph_.key);
  status_.pinned = services_.files.IsPinned(graph_.key);
}

ArtifactStatus ArtifactSlot::status() const {
  absl::MutexLock lock(&mutex_);
  ArtifactStatus status = status_;
  if (artifact_ == nullptr && !unwritten_.expired()) status.unwritten_bytes = unwritten_bytes_;
  return status;
}

absl::Status ArtifactSlot::AwaitIdle() {
  if (IsIdle()) return absl::OkStatus();
  mutex_.Await(absl::Condition(this, &ArtifactSlot::IsIdle));
  return outcome_;
}

void ArtifactSlot::Begin() {
  status_.state = ArtifactState::kSearching;
  outcome_ = absl::OkStatus();
}

void ArtifactSlot::Rest() {
  if (artifact_ != nullptr) {
    status_.state = planned_ ? ArtifactState::kPlanned : ArtifactState::kPresent;
  } else {
    status_.state = status_.failure.ok() ? ArtifactState::kAbsent : ArtifactState::kFailed;
  }
}

void ArtifactSlot::Put(ArtifactPointer artifact) {
  status_.memory_bytes = MemoryBytes(*artifact);
  status_.compile_time = artifact->compile_time;
  status_.failure = absl::OkStatus();
  status_.miss.clear();
  artifact_ = std::move(artifact);
  planned_ = compiled_here_ = false;
}

void ArtifactSlot::NoteFile(bool on_disk) {
  status_.on_disk = on_disk;
  unusable_ = false;
  in_file_.reset();
}

absl::StatusOr<ArtifactSlot::Answer> ArtifactSlot::Get(const Purpose& purpose) {
  {
    absl::MutexLock lock(&mutex_);
    const absl::Status waited_for = AwaitIdle();
    if (status_.state == ArtifactState::kPresent) {
      CountLookup("memory");
      return Answer{artifact_, ArtifactSource::kMemory};
    }
    if (purpose.mode != GetMode::kLoad) RETURN_IF_ERROR(waited_for);
    if (purpose.mode == GetMode::kCompile && Stands(status_.failure)) return status_.failure;
    Begin();
  }
  // A border: the search ends in any case.
  absl::StatusOr<Answer> found = CatchOutOfMemory([&] { return FindOrCompile(purpose); });
  absl::MutexLock lock(&mutex_);
  if (found.ok()) {
    Put(found->artifact);
    compiled_here_ = found->source == ArtifactSource::kCompiled;
  }
  Rest();
  return found;
}

absl::StatusOr<ArtifactSlot::Answer> ArtifactSlot::FindOrCompile(const Purpose& purpose) {
  if (ArtifactPointer found = FindOnDisk(Lookup::kCounts)) {
    return Answer{found, ArtifactSource::kDisk};
  }
  RETURN_IF_ERROR(CheckMayCompile(purpose));
  ASSIGN_OR_RETURN(CompileLock lock, LockForCompiling());
  // Another process may have compiled it since.
  if (lock != nullptr && services_.files.Contains(graph_.key)) {
    if (ArtifactPointer found = FindOnDisk(Lookup::kCounts)) {
      return Answer{found, ArtifactSource::kDisk};
    }
  }
  ArtifactPointer artifact;
  {
    absl::MutexLock held(&mutex_);
    artifact = artifact_;  // kept from a prediction
  }
  if (artifact == nullptr) {
    ASSIGN_OR_RETURN(artifact, CompileNow());
  }
  Adopt(artifact, purpose.reason, std::move(lock));
  return Answer{std::move(artifact), ArtifactSource::kCompiled};
}

absl::StatusOr<ArtifactPointer> ArtifactSlot::GetToPredict() {
  {
    absl::MutexLock lock(&mutex_);
    const absl::Status waited_for = AwaitIdle();
    if (artifact_ != nullptr) return artifact_;
    RETURN_IF_ERROR(waited_for);
    if (Stands(status_.failure)) return status_.failure;
    Begin();
  }
  bool compiled = false;
  // A border, as in Get.
  absl::StatusOr<ArtifactPointer> found =
      CatchOutOfMemory([&]() -> absl::StatusOr<ArtifactPointer> {
        if (ArtifactPointer on_disk = FindOnDisk(Lookup::kOfPrediction)) return on_disk;
        compiled = true;
        return CompileNow();
      });
  absl::MutexLock lock(&mutex_);
  if (found.ok() && compiled) {  // an artifact on disk need not be in memory too
    Put(*found);
    planned_ = compiled_here_ = true;
  }
  Rest();
  return found;
}

absl::Status ArtifactSlot::CheckMayCompile(const Purpose& purpose) const {
  absl::Status cold = Cold();
  if (purpose.mode == GetMode::kLoad) return cold;
  if (!services_.compiling_forbidden || purpose.reason == Reason::kStartup) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          cold.message(),
          "; it would have to be compiled, which this server does not do after its start "
          "(--forbid-compile-after-ready)")),
      "COMPILE_FORBIDDEN");
}

absl::StatusOr<ArtifactSlot::CompileLock> ArtifactSlot::LockForCompiling() const {
  const StoreOptions& options = services_.options;
  if (!services_.files.available()) return nullptr;
  absl::StatusOr<cache::KeyLock> lock =
      services_.files.Lock(graph_.key, options.compile_wait, options.stop);
  if (lock.ok()) return std::make_shared<cache::KeyLock>(*std::move(lock));
  if (absl::IsCancelled(lock.status())) return std::move(lock).status();
  if (absl::IsDeadlineExceeded(lock.status())) {
    Warn(absl::StrCat(" has been compiled by another process for ",
                      absl::FormatDuration(options.compile_wait),
                      ", which may hang; it is compiled here too"));
  }
  return nullptr;  // a directory that cannot be written gives no locks, and takes no artifact
}

ArtifactPointer ArtifactSlot::FindOnDisk(Lookup lookup) {
  {
    absl::MutexLock lock(&mutex_);
    if (unusable_) return nullptr;
  }
  const absl::StatusOr<ArtifactPointer> found = ReadFile();
  const bool wrong = !found.ok() && !absl::IsNotFound(found.status());
  if (lookup == Lookup::kCounts || wrong) CountLookup(ResultOf(found.status()));
  if (absl::IsFailedPrecondition(found.status())) {
    services_.registry.GetCounter(metrics::kGraphCacheLoadFailures, {"incompatible"}).Increment();
  }
  if (wrong) Warn(absl::StrCat(": ", found.status().message()));
  return found.value_or(nullptr);
}

// Notes the file that was read: no other code here writes it in between.
absl::StatusOr<ArtifactPointer> ArtifactSlot::ReadFile() {
  absl::MutexLock reading(&file_);
  const absl::StatusOr<StoredArtifact> found = services_.files.Read(graph_);
  absl::MutexLock lock(&mutex_);
  status_.on_disk = found.ok();
  if (!found.ok()) {
    status_.miss = absl::IsNotFound(found.status()) ? "" : std::string(found.status().message());
    return found.status();
  }
  in_file_ = found->artifact;
  payload_ = found->payload;
  return found->artifact;
}

absl::StatusOr<ArtifactPointer> ArtifactSlot::CompileNow() {
  {
    absl::MutexLock lock(&mutex_);
    status_.state = ArtifactState::kCompiling;
  }
  metrics::Gauge& in_progress = services_.registry.GetGauge(metrics::kGraphCompilesInProgress);
  in_progress.Increment();
  // A border: what there is no memory for has failed as well.
  absl::StatusOr<ArtifactPointer> compiled = CatchOutOfMemory([&] {
    const WorkTime::Scope scope(services_.time, WorkTime::Kind::kCompiling);
    return Compile(graph_.key, graph_.label, *graph_.graph, graph_.backend,
                   services_.options.compile, services_.clock);
  });
  in_progress.Decrement();
  const bool device_failed = device::IsFault(compiled.status());
  if (!compiled.ok() && !device_failed) {
    services_.registry
        .GetCounter(metrics::kGraphCompileFailures, {graph_.label.model, graph_.label.component})
        .Increment();
  }
  absl::MutexLock lock(&mutex_);
  outcome_ = compiled.status();
  if (!device_failed) status_.failure = outcome_;
  return compiled;
}

void ArtifactSlot::Adopt(const ArtifactPointer& artifact, Reason reason, CompileLock lock) {
  services_.registry
      .GetCounter(metrics::kGraphCompilations,
                  {graph_.label.model, graph_.label.component, Name(reason)})
      .Increment();
  ++services_.compilations;
  const size_t bytes = MemoryBytes(*artifact);
  {
    absl::MutexLock held(&mutex_);
    ++status_.compilations;
    unwritten_ = artifact;
    unwritten_bytes_ = bytes;
  }
  if (!services_.files.available()) return;
  auto write = [self = shared_from_this(), artifact, lock = std::move(lock)]() mutable {
    const absl::Status written = self->Write(*artifact);
    lock.reset();
    if (written.ok()) return;
    self->Warn(absl::StrCat(" is not kept on disk: ", written.message()));
  };
  if (!services_.options.write) return write();
  services_.options.write(bytes, std::move(write));
}

bool ArtifactSlot::Discard(const ArtifactPointer& bad, const absl::Status& why) {
  absl::Status aside;
  {
    absl::MutexLock changing(&file_);
    Digest payload;
    {
      absl::MutexLock lock(&mutex_);
      if (artifact_ == bad && compiled_here_) return false;
      if (artifact_ == bad) {
        artifact_ = nullptr;
        status_.memory_bytes = 0;
        Rest();
      }
      if (in_file_.lock() != bad) return true;
      payload = payload_;
      NoteFile(/*on_disk=*/false);
      unusable_ = true;
      status_.miss = absl::StrCat("what was on disk does not load: ", why.message());
    }
    CountLookup("corrupt");
    aside = services_.files.SetAside(graph_.key, payload);
    if (absl::IsAborted(aside)) {  // by another process
      absl::MutexLock lock(&mutex_);
      NoteFile(/*on_disk=*/true);
      status_.miss.clear();
      return true;
    }
  }
  Warn(absl::StrCat(" on disk does not load: ", why.message(),
                    aside.ok() ? "" : "; it cannot be set aside: ", aside.message()));
  return true;
}

absl::Status ArtifactSlot::Cold() const {
  const std::string miss = status().miss;
  return WithReason(absl::FailedPreconditionError(absl::StrCat(
                        graph_.label.ToText(), " is not ready", miss.empty() ? "" : ": ", miss)),
                    "GRAPH_COLD");
}

void ArtifactSlot::CountLookup(const char* result) const {
  services_.registry
      .GetCounter(metrics::kGraphCacheLookups, {graph_.label.model, graph_.label.component, result})
      .Increment();
}

void ArtifactSlot::Warn(absl::string_view what) const {
  services_.options.Warn(absl::StrCat(graph_.label.ToText(), what));
}

ArtifactPointer ArtifactSlot::TakeOut() {
  absl::MutexLock lock(&mutex_);
  if (status_.busy()) return nullptr;
  status_.memory_bytes = 0;
  ArtifactPointer artifact = std::exchange(artifact_, nullptr);
  Rest();
  return artifact;
}

ArtifactPointer ArtifactSlot::InMemory() const {
  absl::MutexLock lock(&mutex_);
  return planned_ ? nullptr : artifact_;
}

absl::Status ArtifactSlot::Write(const Artifact& artifact) {
  absl::MutexLock changing(&file_);
  RETURN_IF_ERROR(services_.files.Write(artifact));
  // The pin went with a file that another process deleted.
  if (status().pinned) services_.files.SetPinned(graph_.key, true).IgnoreError();
  absl::MutexLock lock(&mutex_);
  NoteFile(/*on_disk=*/true);
  return absl::OkStatus();
}

absl::Status ArtifactSlot::TakeIn(const ArtifactPointer& artifact) {
  const bool to_disk = services_.files.available();
  if (to_disk) RETURN_IF_ERROR(Write(*artifact));
  absl::MutexLock lock(&mutex_);
  status_.failure = absl::OkStatus();
  status_.miss.clear();
  if (status_.busy()) return absl::OkStatus();
  if (!to_disk && artifact_ == nullptr) {
    Put(artifact);
    in_file_ = artifact;  // as if it had been read from there
  }
  Rest();
  return absl::OkStatus();
}

absl::Status ArtifactSlot::Remove() {
  absl::MutexLock changing(&file_);
  RETURN_IF_ERROR(services_.files.Remove(graph_.key));
  absl::MutexLock lock(&mutex_);
  NoteFile(/*on_disk=*/false);
  status_.pinned = false;
  return absl::OkStatus();
}

absl::Status ArtifactSlot::SetPinned(bool pinned) {
  RETURN_IF_ERROR(services_.files.SetPinned(graph_.key, pinned));
  absl::MutexLock lock(&mutex_);
  status_.pinned = pinned;
  return absl::OkStatus();
}

void ArtifactSlot::NoteOnDisk(bool on_disk) {
  absl::MutexLock lock(&mutex_);
  status_.on_disk = on_disk && !unusable_;
}

// Notes the file that was there: no other code here writes it in between.
void ArtifactSlot::LookAtDisk() {
  absl::MutexLock looking(&file_);
  NoteOnDisk(services_.files.Contains(graph_.key));
}

}  // namespace latentd::compiler
