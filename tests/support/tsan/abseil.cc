// Tells ThreadSanitizer what Debian's Abseil does. Its libraries are not built with the sanitizer,
// so without this every use of absl::Mutex looks like a race. The functions here stand before
// Abseil's own (a symbol of the program goes before one of a shared library), call those, and say
// when a lock orders threads. cmake/Library.cmake adds it to each test program under that
// sanitizer.

#include <dlfcn.h>

#include <atomic>
#include <cstdint>

#include "absl/base/internal/spinlock_wait.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
}

namespace {

// Abseil's own function. A member function takes its object as the first argument.
template <typename Function>
Function* Next(const char* mangled_name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, mangled_name));
}

void Acquire(const void* address) { __tsan_acquire(const_cast<void*>(address)); }
void Release(const void* address) { __tsan_release(const_cast<void*>(address)); }

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

using TimedWait = bool(Mutex*, const Condition&, Duration);
using DeadlineWait = bool(Mutex*, const Condition&, Time);

void Mutex::Lock() {
  static auto* const next = Next<void(Mutex*)>("_ZN4absl7debian35Mutex4LockEv");
  next(this);
  Acquire(this);
}

bool Mutex::TryLock() {
  static auto* const next = Next<bool(Mutex*)>("_ZN4absl7debian35Mutex7TryLockEv");
  const bool locked = next(this);
  if (locked) Acquire(this);
  return locked;
}

void Mutex::Unlock() {
  static auto* const next = Next<void(Mutex*)>("_ZN4absl7debian35Mutex6UnlockEv");
  Release(this);
  next(this);
}

void Mutex::ReaderLock() {
  static auto* const next = Next<void(Mutex*)>("_ZN4absl7debian35Mutex10ReaderLockEv");
  next(this);
  Acquire(this);
}

void Mutex::ReaderUnlock() {
  static auto* const next = Next<void(Mutex*)>("_ZN4absl7debian35Mutex12ReaderUnlockEv");
  Release(this);
  next(this);
}

void Mutex::LockWhen(const Condition& condition) {
  static auto* const next =
      Next<void(Mutex*, const Condition&)>("_ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE");
  next(this, condition);
  Acquire(this);
}

bool Mutex::LockWhenWithTimeout(const Condition& condition, Duration timeout) {
  static auto* const next = Next<TimedWait>(
      "_ZN4absl7debian35Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  const bool result = next(this, condition, timeout);
  Acquire(this);
  return result;
}

void Mutex::Await(const Condition& condition) {
  static auto* const next =
      Next<void(Mutex*, const Condition&)>("_ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE");
  Release(this);
  next(this, condition);
  Acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  static auto* const next =
      Next<TimedWait>("_ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  Release(this);
  const bool result = next(this, condition, timeout);
  Acquire(this);
  return result;
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  static auto* const next =
      Next<DeadlineWait>("_ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  Release(this);
  const bool result = next(this, condition, deadline);
  Acquire(this);
  return result;
}

// Runs under the lock, but on whichever thread unlocks, so its reads are not to be judged.
bool Condition::Eval() const {
  static auto* const next = Next<bool(const Condition*)>("_ZNK4absl7debian39Condition4EvalEv");
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  const bool result = next(this);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  return result;
}

void CondVar::Wait(Mutex* mutex) {
  static auto* const next =
      Next<void(CondVar*, Mutex*)>("_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE");
  Release(mutex);
  next(this, mutex);
  Acquire(mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  static auto* const next = Next<bool(CondVar*, Mutex*, Duration)>(
      "_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  Release(mutex);
  const bool result = next(this, mutex, timeout);
  Acquire(mutex);
  return result;
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static auto* const next = Next<bool(CondVar*, Mutex*, Time)>(
      "_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  Release(mutex);
  const bool result = next(this, mutex, deadline);
  Acquire(mutex);
  return result;
}

void Notification::Notify() {
  static auto* const next = Next<void(Notification*)>("_ZN4absl7debian312Notification6NotifyEv");
  Release(this);
  next(this);
}

void Notification::WaitForNotification() const {
  static auto* const next =
      Next<void(const Notification*)>("_ZNK4absl7debian312Notification19WaitForNotificationEv");
  next(this);
  Acquire(this);
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  static auto* const next = Next<bool(const Notification*, Duration)>(
      "_ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE");
  const bool result = next(this, timeout);
  if (result) Acquire(this);
  return result;
}

namespace base_internal {

// Part of call_once, which is a template but for this: waits for another thread's call.
uint32_t SpinLockWait(std::atomic<uint32_t>* word, int count,
                      const SpinLockWaitTransition transitions[], SchedulingMode mode) {
  using Wait = uint32_t(std::atomic<uint32_t>*, int, const SpinLockWaitTransition*, SchedulingMode);
  static auto* const next = Next<Wait>(
      "_ZN4absl7debian313base_internal12SpinLockWaitEPSt6atomicIjEiPKNS1_"
      "22SpinLockWaitTransitionENS1_14SchedulingModeE");
  const uint32_t result = next(word, count, transitions, mode);
  Acquire(word);
  return result;
}

}  // namespace base_internal
ABSL_NAMESPACE_END
}  // namespace absl
