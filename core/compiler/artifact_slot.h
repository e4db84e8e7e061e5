// The artifact of one graph: in memory, on disk, or to be compiled, once however many ask at once.
// The others wait, also those of other processes on the same disk cache, and then take the artifact
// from there.
//
// A caller that waited for a failed compilation gets its error. A failure to compile is remembered
// with its reason and given to later callers, until a Get for kRetry or an import; but a lack of
// memory, or a device that has failed (core/device/device_fault.h), is not. A compiled artifact is
// written to disk as soon as a caller asked for it. An artifact on disk that was made for another
// key, in another format, or is damaged, is a miss whose reason is logged, counted and shown; never
// an error.
//
// An artifact that a prediction compiled stays in memory (kPlanned), and is a compilation once a
// caller takes it: only then is it counted, under that one's reason, and written to disk; until
// then, only callers that may compile get it. It is evicted as others are: over the memory budget
// (InstanceCache), or with the graph's last handle.
//
// Thread-safe. Compiling happens on the thread that asks. Owned by shared pointers: what waits to
// be written has one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/compiler/artifact.h"
#include "core/compiler/graph_spec.h"
#include "core/compiler/store_options.h"

namespace latentd::compiler {

// From every state but itself there is a way to kSearching, and from there to every other.
enum class ArtifactState : uint8_t {
  kAbsent,     // not in memory; it may be on disk
  kSearching,  // one thread asks the disk, or waits for another process
  kCompiling,  // one thread compiles
  kPlanned,    // in memory, compiled for a prediction
  kPresent,    // in memory
  kFailed,     // compiling it failed
};

enum class ArtifactSource : uint8_t { kMemory, kDisk, kCompiled };

struct ArtifactStatus {
  ArtifactState state = ArtifactState::kAbsent;
  bool on_disk = false;  // as far as is known, and usable
  bool pinned = false;
  size_t memory_bytes = 0;
  size_t unwritten_bytes = 0;   // evicted, but still held to be written to disk
  int compilations = 0;         // in this process, those that came to something
  absl::Duration compile_time;  // time of the last, or as the artifact says
  absl::Status failure;         // failure of compiling
  std::string miss;             // why what was on disk could not be used

  // Without compiling.
  bool can_be_had() const { return on_disk || state == ArtifactState::kPresent; }
  bool busy() const {
    return state == ArtifactState::kSearching || state == ArtifactState::kCompiling;
  }
};

class ArtifactSlot : public std::enable_shared_from_this<ArtifactSlot> {
 public:
  // `services` must outlive the slot. Asks the disk.
  ArtifactSlot(GraphDefinition graph, StoreServices& services);

  const GraphDefinition& graph() const { return graph_; }
  ArtifactStatus status() const ABSL_LOCKS_EXCLUDED(mutex_);

  // FAILED_PRECONDITION, reason GRAPH_COLD: purpose.mode does not allow what would have to be done;
  // COMPILE_FORBIDDEN: nor does StoreServices. Else what compiling says.
  struct Answer {
    ArtifactPointer artifact;
    ArtifactSource source;
  };
  absl::StatusOr<Answer> Get(const Purpose& purpose) ABSL_LOCKS_EXCLUDED(mutex_);

  // To predict what it needs; compiles it where it has to, forbidden or not: the result is
  // given to no caller that may not compile.
  absl::StatusOr<ArtifactPointer> GetToPredict() ABSL_LOCKS_EXCLUDED(mutex_);

  // `bad`, which one of these gave, is damaged: neither memory nor disk shall give it again. What
  // has come in its place since stays. False: it was compiled here, and asking again would give the
  // same.
  bool Discard(const ArtifactPointer& bad, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(file_, mutex_);

  // Why the graph cannot be had without doing more.
  absl::Status Cold() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Out of memory, unless a thread is at it; the result is to be freed without a lock.
  ArtifactPointer TakeOut() ABSL_LOCKS_EXCLUDED(mutex_);
  // An artifact in memory that a caller asked for; null: none.
  ArtifactPointer InMemory() const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Write(const Artifact& artifact) ABSL_LOCKS_EXCLUDED(file_, mutex_);
  // One that came from elsewhere and was checked: to disk, or to memory if there is none.
  absl::Status TakeIn(const ArtifactPointer& artifact) ABSL_LOCKS_EXCLUDED(file_, mutex_);
  // The file, and the pin with it.
  absl::Status Remove() ABSL_LOCKS_EXCLUDED(file_, mutex_);
  absl::Status SetPinned(bool pinned) ABSL_LOCKS_EXCLUDED(mutex_);
  // Another process changed the file. An unloadable file stays unusable until it is rewritten or
  // removed.
  void NoteOnDisk(bool on_disk) ABSL_LOCKS_EXCLUDED(mutex_);
  // Asks the disk for it.
  void LookAtDisk() ABSL_LOCKS_EXCLUDED(file_, mutex_);

 private:
  using CompileLock = std::shared_ptr<cache::KeyLock>;
  // Lookups of predictions count only where they find something wrong.
  enum class Lookup : uint8_t { kCounts, kOfPrediction };

  bool IsIdle() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !status_.busy(); }
  // Waits until no thread is at it. Returns the compile error of the thread that this waited for,
  // if it failed.
  absl::Status AwaitIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the search or compilation of a thread.
  void Rest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Put(ArtifactPointer artifact) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The file is another one than was read.
  void NoteFile(bool on_disk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::StatusOr<Answer> FindOrCompile(const Purpose& purpose) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckMayCompile(const Purpose& purpose) const ABSL_LOCKS_EXCLUDED(mutex_);
  ArtifactPointer FindOnDisk(Lookup lookup) ABSL_LOCKS_EXCLUDED(file_, mutex_);
  absl::StatusOr<ArtifactPointer> ReadFile() ABSL_LOCKS_EXCLUDED(file_, mutex_);
  // Among processes; null: compile without. CANCELLED: do not compile.
  absl::StatusOr<CompileLock> LockForCompiling() const;
  absl::StatusOr<ArtifactPointer> CompileNow() ABSL_LOCKS_EXCLUDED(mutex_);
  // A caller asked for what was compiled: counts it and has it written. Releases the lock after
  // that: those that wait for it find the artifact.
  void Adopt(const ArtifactPointer& artifact, Reason reason, CompileLock lock)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void CountLookup(const char* result) const;
  void Warn(absl::string_view what) const;

  const GraphDefinition graph_;
  StoreServices& services_;
  absl::Mutex file_;  // held for reading, writing or moving the file; taken before mutex_
  mutable absl::Mutex mutex_;
  ArtifactStatus status_ ABSL_GUARDED_BY(mutex_);
  // The last thread's outcome of compiling; OK also if it did not compile.
  absl::Status outcome_ ABSL_GUARDED_BY(mutex_);
  ArtifactPointer artifact_ ABSL_GUARDED_BY(mutex_);
  std::weak_ptr<const Artifact> unwritten_ ABSL_GUARDED_BY(mutex_);  // was given to be written
  size_t unwritten_bytes_ ABSL_GUARDED_BY(mutex_) = 0;               // bytes of unwritten_
  bool planned_ ABSL_GUARDED_BY(mutex_) = false;                     // it is of a prediction
  bool compiled_here_ ABSL_GUARDED_BY(mutex_) = false;
  std::weak_ptr<const Artifact> in_file_ ABSL_GUARDED_BY(mutex_);  // read from there
  Digest payload_ ABSL_GUARDED_BY(mutex_);                         // digest of in_file_
  // The file did not load; it is not read again, though it may still be there.
  bool unusable_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace latentd::compiler
