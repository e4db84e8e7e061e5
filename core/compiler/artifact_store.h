// Which artifacts there are: in memory, on disk, or to be compiled, once per key however many ask
// at once. The others wait, also those of other processes on the same disk cache, who then take the
// artifact from there.
//
// A failure to compile is remembered with its reason and given to who asks again, until a Get for
// kRetry or an import; but a lack of memory is not. What was compiled is written to disk as soon as
// somebody asked for it. An artifact on disk that was made for another key, in another format, or
// is damaged, is a miss whose reason is logged, counted and shown; never an error.
//
// What a prediction compiled stays in memory (kPlanned), and is a compilation once somebody takes
// it: only then is it counted, under that one's reason, and written to disk. Until then who may not
// compile does not get it. It leaves as everything in memory does: when the memory budget is passed
// (InstanceCache), or with the graph's last handle.
//
// Thread-safe. Compiling happens on the thread that asks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/compiler/artifact.h"
#include "core/compiler/artifact_files.h"
#include "core/compiler/graph_spec.h"
#include "core/compiler/store_options.h"
#include "core/compiler/work_time.h"
#include "core/metrics/registry.h"

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
  int compilations = 0;         // in this process, those that came to something
  absl::Duration compile_time;  // of the last, or as the artifact says
  absl::Status failure;         // of kFailed
  std::string miss;             // why what was on disk could not be used

  bool busy() const {
    return state == ArtifactState::kSearching || state == ArtifactState::kCompiling;
  }
};

class ArtifactStore {
 public:
  // All must outlive the store.
  ArtifactStore(const Clock& clock, metrics::Registry& registry, ArtifactFiles& files,
                WorkTime& time, const StoreOptions& options)
      : clock_(clock), registry_(registry), files_(files), time_(time), options_(options) {}

  // From Declare to Forget the store knows the graph, which all that take a definition require.
  void Declare(const Digest& id, bool on_disk, bool pinned) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns what it had in memory, to be freed without a lock. REQUIRES: not busy.
  ArtifactPointer Forget(const Digest& id) ABSL_LOCKS_EXCLUDED(mutex_);

  // FAILED_PRECONDITION, reason GRAPH_COLD: purpose.mode does not allow what would have to be done;
  // COMPILE_FORBIDDEN: nor does ForbidCompiling. Else what compiling says.
  struct Found {
    ArtifactPointer artifact;
    ArtifactSource source;
  };
  absl::StatusOr<Found> Get(const GraphDefinition& graph, const Purpose& purpose)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // To predict what it needs; compiles it where it has to, ForbidCompiling or not: what comes of it
  // is given to nobody who may not compile.
  absl::StatusOr<ArtifactPointer> GetToPredict(const GraphDefinition& graph)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // `bad`, which Get gave, is damaged: neither memory nor disk shall give it again. False: it was
  // compiled here, and asking again would give the same.
  bool Discard(const GraphDefinition& graph, const ArtifactPointer& bad, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(mutex_);

  void ForbidCompiling() { compiling_forbidden_ = true; }

  // Why the graph cannot be had without doing more.
  absl::Status Cold(const GraphDefinition& graph) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Of a graph that is declared; else of none.
  ArtifactStatus StatusOf(const Digest& id) const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t memory_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t compilations() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Out of memory, unless a thread is at it; the result is to be freed without a lock.
  ArtifactPointer TakeOut(const Digest& id) ABSL_LOCKS_EXCLUDED(mutex_);

  // What is in memory and somebody asked for; null: nothing. Of any id.
  ArtifactPointer FindInMemory(const Digest& id) ABSL_LOCKS_EXCLUDED(mutex_);
  // To disk, with its pin.
  absl::Status Write(const Artifact& artifact) ABSL_LOCKS_EXCLUDED(mutex_);
  // One that came from elsewhere and was checked: it is on disk now, or to be in memory.
  void TakeIn(const ArtifactPointer& artifact) ABSL_LOCKS_EXCLUDED(mutex_);
  // What others did to the disk, or to a graph's file by its id. What did not load stays unusable
  // until it is written anew or removed.
  void NoteOnDisk(const Digest& id, bool on_disk) ABSL_LOCKS_EXCLUDED(mutex_);
  void NoteRemoved(const Digest& id) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetPinned(const Digest& id, bool pinned) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  enum class OnDisk : uint8_t {
    kNo,
    kYes,
    kUnusable,  // it did not load; not read again, though it may still be there
  };
  struct Slot {
    ArtifactState state = ArtifactState::kAbsent;
    ArtifactPointer artifact;  // of kPlanned and kPresent, and what a thread is at meanwhile
    size_t bytes = 0;          // of it
    bool planned = false;      // it is of a prediction
    bool compiled_here = false;
    OnDisk disk = OnDisk::kNo;
    bool pinned = false;
    absl::Status failure;  // of compiling
    int tries = 0;         // compilations that ended
    int compilations = 0;
    absl::Duration compile_time;
    std::string miss;
  };
  using CompileLock = std::shared_ptr<cache::KeyLock>;

  // The slot once no thread is at it.
  Slot& AwaitIdle(const Digest& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Slot* FindSlot(const Digest& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static ArtifactState RestingState(const Slot& slot);
  static void Put(Slot& slot, ArtifactPointer artifact);

  absl::StatusOr<Found> FindOrCompile(const GraphDefinition& graph, const Purpose& purpose)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckMayCompile(const GraphDefinition& graph, GetMode mode) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Those of predictions count where they find something wrong.
  enum class Lookup : uint8_t { kCounts, kOfPrediction };
  ArtifactPointer FindOnDisk(const GraphDefinition& graph, Lookup lookup = Lookup::kCounts)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Among processes; null: compile without. CANCELLED: do not compile.
  absl::StatusOr<CompileLock> LockForCompiling(const GraphDefinition& graph) const;
  absl::StatusOr<ArtifactPointer> CompileNow(const GraphDefinition& graph)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Somebody asked for what was compiled: counts it and has it written.
  void Adopt(const GraphDefinition& graph, const ArtifactPointer& artifact, Reason reason,
             CompileLock lock) ABSL_LOCKS_EXCLUDED(mutex_);
  // Writes it, then lets go of the lock: who waits for that finds the artifact.
  void Keep(const ArtifactPointer& artifact, CompileLock lock);
  void CountLookup(const GraphDefinition& graph, const char* result);

  const Clock& clock_;
  metrics::Registry& registry_;
  ArtifactFiles& files_;
  WorkTime& time_;
  const StoreOptions& options_;
  std::atomic<bool> compiling_forbidden_ = false;
  mutable absl::Mutex mutex_;
  std::map<Digest, Slot> slots_
      ABSL_GUARDED_BY(mutex_);  // stays where it is while a thread is at it
  int64_t compilations_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace latentd::compiler
