// GraphStore's way from an entry to its artifact: memory, disk, compiling.
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/compiler/graph_entry.h"

namespace latentd::compiler {
namespace {

// Of the metric of look-ups.
const char* Name(DiskArtifacts::Result result) {
  switch (result) {
    case DiskArtifacts::Result::kDisk:
      return "disk";
    case DiskArtifacts::Result::kMiss:
      return "miss";
    case DiskArtifacts::Result::kIncompatible:
      return "incompatible";
    case DiskArtifacts::Result::kCorrupt:
      return "corrupt";
  }
  return "";
}

}  // namespace

absl::StatusOr<GraphStore::Got> GraphStore::GetArtifact(Entry& entry, Purpose purpose) {
  {
    absl::MutexLock lock(&mutex_);
    const int tries = entry.tries;
    const auto idle = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return entry.work == Entry::Work::kNone;
    };
    mutex_.Await(absl::Condition(&idle));
    if (entry.artifact.bytes != nullptr) {
      CountLookup(entry, "memory");
      return Got{entry.artifact, "memory_load"};
    }
    const bool others = entry.tries != tries;  // what came of a try that was waited for
    const bool stands =
        purpose.allow == Allow::kCompile && !absl::IsResourceExhausted(entry.failure);
    if ((others || stands) && !entry.failure.ok()) return entry.failure;
    entry.work = Entry::Work::kLooking;
    Publish(entry);
  }
  absl::StatusOr<Got> got = CatchOutOfMemory([&] { return FindOrCompile(entry, purpose); });
  absl::MutexLock lock(&mutex_);
  entry.work = Entry::Work::kNone;
  if (got.ok()) {
    entry.artifact = got->artifact;
    entry.failure = absl::OkStatus();
    entry.miss.clear();
  }
  Publish(entry);
  return got;
}

absl::StatusOr<GraphStore::Got> GraphStore::FindOrCompile(Entry& entry, Purpose purpose) {
  Bytes found = FindOnDisk(entry);
  if (found.bytes != nullptr) return Got{std::move(found), "disk_load"};
  RETURN_IF_ERROR(CheckMayCompile(entry, purpose.allow));
  ASSIGN_OR_RETURN(CompileLock lock, LockForCompiling(entry));
  // Another process may have compiled it since.
  if (lock != nullptr && disk_.Contains(entry.key)) found = FindOnDisk(entry);
  if (found.bytes != nullptr) return Got{std::move(found), "disk_load"};
  {
    absl::MutexLock held(&mutex_);
    entry.work = Entry::Work::kCompiling;
    Publish(entry);
  }
  ASSIGN_OR_RETURN(Bytes compiled, CompileNow(entry, purpose, std::move(lock)));
  return Got{std::move(compiled), "compile"};
}

absl::Status GraphStore::CheckMayCompile(const Entry& entry, Allow allow) const {
  absl::MutexLock lock(&mutex_);
  if (allow == Allow::kLoad) return Cold(entry);
  if (!compiling_forbidden_) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          Cold(entry).message(),
          "; it would have to be compiled, which this server does not do after its start "
          "(--forbid-compile-after-ready)")),
      "COMPILE_FORBIDDEN");
}

absl::StatusOr<GraphStore::CompileLock> GraphStore::LockForCompiling(const Entry& entry) const {
  if (!options_.save || !disk_.available()) return nullptr;
  absl::StatusOr<cache::KeyLock> lock = disk_.Lock(entry.key, options_.compile_wait, options_.stop);
  if (lock.ok()) return std::make_shared<cache::KeyLock>(*std::move(lock));
  if (absl::IsCancelled(lock.status())) return std::move(lock).status();
  if (absl::IsDeadlineExceeded(lock.status())) {
    Warn(absl::StrCat(entry.label.ToText(), " has been compiled by another process for ",
                      absl::FormatDuration(options_.compile_wait),
                      ", which may hang; it is compiled here too"));
  }
  return nullptr;  // a directory that cannot be written gives no locks, and takes no artifact
}

GraphStore::Bytes GraphStore::FindOnDisk(Entry& entry) {
  using Result = DiskArtifacts::Result;
  {
    absl::MutexLock lock(&mutex_);
    if (entry.distrusted) return {};
  }
  DiskArtifacts::Found found = disk_.Find(entry.key);
  CountLookup(entry, Name(found.result));
  if (found.result == Result::kIncompatible) {
    registry_.GetCounter(metrics::kGraphCacheLoadFailures, {"incompatible"}).Increment();
  }
  if (!found.reason.empty()) Warn(absl::StrCat(entry.label.ToText(), ": ", found.reason));
  absl::MutexLock lock(&mutex_);
  entry.on_disk = found.result == Result::kDisk;
  if (!entry.on_disk) {
    entry.miss = std::move(found.reason);
    return {};
  }
  entry.compile_time = found.compile_time;
  return {std::make_shared<const std::string>(std::move(found.bytes)), /*made_here=*/false};
}

absl::StatusOr<GraphStore::Bytes> GraphStore::CompileNow(Entry& entry, Purpose purpose,
                                                         CompileLock lock) {
  metrics::Gauge& in_progress = registry_.GetGauge(metrics::kGraphCompilesInProgress);
  in_progress.Increment();
  absl::StatusOr<PlannedGraph> compiled;
  if (purpose.planned != nullptr) {
    compiled = *purpose.planned;
  } else {
    CountThreads(/*compilers=*/1, /*loaders=*/0);
    compiled = CatchOutOfMemory([&] { return PlanNow(entry); });
    CountThreads(/*compilers=*/-1, /*loaders=*/0);
  }
  in_progress.Decrement();
  {
    absl::MutexLock held(&mutex_);
    ++entry.tries;
    entry.failure = compiled.status();
    if (compiled.ok()) {
      entry.compile_time = compiled->took;
      entry.ForgetNeeds();
      ++entry.compilations;
      ++totals_.compilations;
    }
  }
  const std::string& component = entry.label.component;
  if (!compiled.ok()) {
    registry_.GetCounter(metrics::kGraphCompileFailures, {component}).Increment();
    return compiled.status();
  }
  registry_.GetCounter(metrics::kGraphCompilations, {component, std::string(purpose.reason)})
      .Increment();
  auto bytes = std::make_shared<const std::string>(
      Seal(compiled->graph, entry.key, entry.label, compiled->took));
  Bytes artifact{std::move(bytes), /*made_here=*/true};
  if (options_.save && disk_.available()) Keep(entry, artifact, std::move(lock));
  return artifact;
}

void GraphStore::Keep(Entry& entry, const Bytes& artifact, CompileLock lock) {
  auto write = [this, entry = entry.shared_from_this(), artifact,
                lock = std::move(lock)]() mutable {
    const absl::Status written =
        CatchOutOfMemory([&] { return WriteToDisk(*entry, *artifact.bytes); });
    lock.reset();
    if (written.ok()) return;
    Warn(absl::StrCat(entry->label.ToText(), " is not kept on disk: ", written.message()));
  };
  if (!options_.write) return write();
  options_.write(artifact.bytes->size(), std::move(write));
}

absl::Status GraphStore::WriteToDisk(Entry& entry, const std::string& bytes) {
  RETURN_IF_ERROR(disk_.Write(entry.key, bytes));
  bool pinned = false;
  {
    absl::MutexLock lock(&mutex_);
    entry.on_disk = true;
    entry.distrusted = false;
    pinned = entry.pinned;
  }
  return pinned ? disk_.SetPinned(entry.key, true) : absl::OkStatus();
}

void GraphStore::Discard(Entry& entry, const Bytes& bad, const absl::Status& why) {
  {
    absl::MutexLock lock(&mutex_);
    if (entry.artifact.bytes != bad.bytes) return;  // somebody else did
    entry.artifact = {};
    entry.on_disk = false;
    entry.distrusted = true;
    entry.miss = absl::StrCat("what was on disk does not load: ", why.message());
  }
  CountLookup(entry, "corrupt");
  const absl::Status aside = disk_.SetAside(entry.key);
  Warn(absl::StrCat(entry.label.ToText(), " on disk does not load: ", why.message(),
                    aside.ok() ? "" : "; it cannot be set aside: ", aside.message()));
}

absl::Status GraphStore::Cold(const Entry& entry) const {
  std::string message = absl::StrCat(entry.label.ToText(), " is not ready");
  if (!entry.miss.empty()) absl::StrAppend(&message, ": ", entry.miss);
  return WithReason(absl::FailedPreconditionError(message), "GRAPH_COLD");
}

}  // namespace latentd::compiler
