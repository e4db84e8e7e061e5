#include "core/base/split_work.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "core/base/out_of_memory.h"

namespace latentd {
namespace {

// What is left of the task. Thread-safe.
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
  // Who gets count_ has come too late: `part_` may be gone by then.
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
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<Worker*> helpers;
  for (int i = 1; i < std::min(threads, count); ++i) {
    helpers.push_back(workers.emplace_back(std::make_unique<Worker>("split")).get());
  }
  SplitWork(helpers, count, part);
}

}  // namespace latentd
