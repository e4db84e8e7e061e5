#include "core/base/split_work.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "core/base/out_of_memory.h"
#include "core/base/thread_limit.h"

namespace latentd {
namespace {

// The parts that are not taken yet. Thread-safe.
class Parts {
 public:
  Parts(int count, absl::FunctionRef<void(int)> part) : count_(count), part_(part) {}

  // Takes parts until none is left.
  void Work() ABSL_LOCKS_EXCLUDED(mutex_) {
    for (int number = Take(); number < count_; number = Take()) {
      part_(number);
      absl::MutexLock lock(&mutex_);
      ++done_;
    }
  }

  void WaitForAll() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_, absl::Condition(this, &Parts::AllAreDone));
  }

 private:
  // Returns count_ if none is left: the caller came too late, and `part_` may be gone by then.
  int Take() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return next_ < count_ ? next_++ : count_;
  }
  bool AllAreDone() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return done_ == count_; }

  const int count_;
  const absl::FunctionRef<void(int)> part_;
  absl::Mutex mutex_;
  int next_ ABSL_GUARDED_BY(mutex_) = 0;
  int done_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

void SplitWork(absl::Span<Worker* const> helpers, int count, absl::FunctionRef<void(int)> part) {
  const auto parts = std::make_shared<Parts>(count, part);
  for (Worker* const helper : helpers) {
    // Without memory to ask for help the others do its parts.
    CatchOutOfMemory([&] {
      helper->Continue([parts] { parts->Work(); });
      return absl::OkStatus();
    }).IgnoreError();
  }
  parts->Work();
  parts->WaitForAll();
}

void SplitWorkOn(int threads, int count, absl::FunctionRef<void(int)> part) {
  Parts parts(count, part);
  std::vector<std::thread> helpers;
  const absl::Cleanup join = [&helpers] {
    for (std::thread& helper : helpers) helper.join();
  };
  helpers.reserve(std::max(std::min(threads, count), 0));
  for (int i = 1; i < std::min(threads, count); ++i) {
    absl::StatusOr<std::thread> helper = TryStartThread("split", [&parts] { parts.Work(); });
    if (!helper.ok()) break;
    helpers.push_back(*std::move(helper));
  }
  parts.Work();
}

}  // namespace latentd
