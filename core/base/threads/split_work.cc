#include "core/base/threads/split_work.h"

#include <algorithm>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/threads/thread_limit.h"

namespace latentd {
namespace {

// The parts that are not taken yet. Thread-safe.
class Parts {
 public:
  Parts(int count, absl::FunctionRef<void(int)> part) : count_(count), part_(part) {}

  // Takes parts until none is left.
  void Work() ABSL_LOCKS_EXCLUDED(mutex_) {
    for (int number = Take(); number < count_; number = Take()) {
      // The others are not left waiting for it.
      const absl::Status ran = CatchOutOfMemory([&] { part_(number); });
      absl::MutexLock lock(&mutex_);
      ++done_;
      lacks_memory_ |= !ran.ok();
    }
  }

  void WaitForAll() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_, absl::Condition(this, &Parts::AllAreDone));
    if (lacks_memory_) throw std::bad_alloc();
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
  bool lacks_memory_ ABSL_GUARDED_BY(mutex_) = false;  // for some part
};

}  // namespace

void SplitWork(absl::Span<Worker* const> helpers, int count, absl::FunctionRef<void(int)> part) {
  const auto parts = std::make_shared<Parts>(count, part);
  for (Worker* const helper : helpers) {
    // Without memory to ask for help the others do its parts; all are done before this ends.
    CatchOutOfMemory([&] { helper->Continue([parts] { parts->Work(); }); }).IgnoreError();
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
  parts.WaitForAll();
}

}  // namespace latentd
