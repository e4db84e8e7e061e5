// Findings of a backend about shapes of ops: for each, the kernel of a library that it takes.
// Graphs, buckets and starts share shapes, so that a graph pays only for those that none before it
// had; across starts by an archive.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace latentd::backends {

// A kind of work for the kernel of one shape, for counting.
enum class KernelWork : uint8_t {
  kTrial,         // kernels were timed
  kTrialFault,    // one of them ended the process that tried it
  kPlanBuilt,     // a library built a plan
  kPlanRestored,  // a library read a plan that it had built before
  kFound,         // an earlier process's choice was found
  kRefused,       // it was found, and was of no use
};

// Storage of findings across restarts, as functions, since backends know no cache: the engine hands
// in the disk cache's. They must be thread-safe; failures to read or write are ignored.
struct FindingArchive {
  // Returns the finding of this build on this machine, as `keep` had it; nullopt: none.
  std::function<std::optional<std::string>(const std::string& shape)> find;
  // Instead of what is there.
  std::function<void(const std::string& shape, const std::string& choice)> keep;
  std::function<void(KernelWork work)> count;
  // Reports a problem that stops no work, for the operator.
  std::function<void(absl::string_view)> warn;
};

class Findings {
 public:
  Findings() = default;
  Findings(const Findings&) = delete;

  // The right to choose for a shape: exclusive until this is destroyed.
  class Turn {
   public:
    ~Turn() { findings_.End(shape_); }
    Turn(const Turn&) = delete;

   private:
    friend class Findings;
    Turn(Findings& findings, const std::string& shape) : findings_(findings), shape_(shape) {}

    Findings& findings_;
    const std::string shape_;
  };
  // Waits until no other thread has the shape's turn. A thread may hold one turn at a time.
  Turn WaitForTurn(const std::string& shape) ABSL_LOCKS_EXCLUDED(mutex_);

  // From now on. Functions may be empty; all are, at first.
  void Connect(FindingArchive archive) ABSL_LOCKS_EXCLUDED(mutex_);

  // The archive is asked once.
  std::optional<std::string> Find(const std::string& shape) ABSL_LOCKS_EXCLUDED(mutex_);

  // The one that was there before, if there was one: equal shapes have equal choices.
  std::string Keep(const std::string& shape, std::string choice) ABSL_LOCKS_EXCLUDED(mutex_);

  // The choice is of no use, and forgotten.
  void Refuse(const std::string& shape, const std::string& choice, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(mutex_);

  void Warn(absl::string_view what) const ABSL_LOCKS_EXCLUDED(mutex_);
  void Count(KernelWork work) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Archive = std::shared_ptr<const FindingArchive>;
  struct Found {
    std::string choice;
    bool archived = false;  // an earlier process chose
  };

  void End(const std::string& shape) ABSL_LOCKS_EXCLUDED(mutex_);
  static std::optional<std::string> ChoiceOf(const std::optional<Found>& found);
  Archive archive() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<Found>& At(const std::string& shape) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::set<std::string> choosing_ ABSL_GUARDED_BY(mutex_);  // shapes with a turn
  Archive archive_ ABSL_GUARDED_BY(mutex_) = std::make_shared<const FindingArchive>();
  // nullopt: the archive has been asked.
  std::map<std::string, std::optional<Found>> found_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::backends
