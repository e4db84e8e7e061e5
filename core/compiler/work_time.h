// How long something was compiled, and how long something was loaded (first runs included) and
// nothing compiled, however many threads were at it.
//
// Thread-safe.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"

namespace latentd::compiler {

class WorkTime {
 public:
  explicit WorkTime(const Clock& clock) : clock_(clock) {}

  // Counts the thread that makes it, for as long as it lives.
  enum class Kind : uint8_t { kCompiling, kLoading };
  class Scope {
   public:
    Scope(WorkTime& time, Kind kind) : time_(time), kind_(kind) { time_.Count(kind_, 1); }
    ~Scope() { time_.Count(kind_, -1); }
    Scope(const Scope&) = delete;

   private:
    WorkTime& time_;
    const Kind kind_;
  };

  absl::Duration compile_time() const {
    absl::MutexLock lock(&mutex_);
    return compile_time_;
  }
  absl::Duration load_time() const {
    absl::MutexLock lock(&mutex_);
    return load_time_;
  }

 private:
  void Count(Kind kind, int more) {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = clock_.Monotonic();
    if (compilers_ > 0) {
      compile_time_ += now - since_;
    } else if (loaders_ > 0) {
      load_time_ += now - since_;
    }
    since_ = now;
    (kind == Kind::kCompiling ? compilers_ : loaders_) += more;
  }

  const Clock& clock_;
  mutable absl::Mutex mutex_;
  int compilers_ ABSL_GUARDED_BY(mutex_) = 0, loaders_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time since_ ABSL_GUARDED_BY(mutex_);
  absl::Duration compile_time_ ABSL_GUARDED_BY(mutex_), load_time_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::compiler
