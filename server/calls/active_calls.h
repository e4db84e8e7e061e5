// The generation calls that have not ended: for finding those whose client reads nothing, and for
// waiting until the last one is done.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace latentd::server::calls {

// By default, a client that takes no message for this long is cancelled: pictures that wait hold
// memory.
inline constexpr absl::Duration kStallLimit = absl::Seconds(60);

// One call, as seen from outside of it. Thread-safe.
class ActiveCall {
 public:
  virtual ~ActiveCall() = default;

  // Cancels the call if its client has taken nothing since `limit` before `now` (monotonic).
  virtual void CancelIfStalled(absl::Time now, absl::Duration limit) = 0;

  // Cancels the call if a finished picture has waited since then to be read, in part or whole.
  virtual void CancelIfUnread(absl::Time now, absl::Duration limit) {}

  virtual void Cancel() = 0;

  // Of pictures that wait for the client.
  virtual int64_t held_bytes() const = 0;
};

// Thread-safe.
class ActiveCalls {
 public:
  void Add(const std::shared_ptr<ActiveCall>& call);
  void Remove(const ActiveCall& call);

  // To be called every second or so.
  void CancelStalled(absl::Time now, absl::Duration limit) const;
  // While others wait for the memory.
  void CancelUnread(absl::Time now, absl::Duration limit) const;
  void CancelAll() const;

  // Whether none was left before `timeout` passed.
  bool WaitUntilEmpty(absl::Duration timeout) const;

  int64_t held_bytes() const;

 private:
  // Calls are used outside of the lock, because what is done to them may remove them.
  std::vector<std::shared_ptr<ActiveCall>> Snapshot() const;

  mutable absl::Mutex mutex_;
  std::map<const ActiveCall*, std::weak_ptr<ActiveCall>> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::server::calls
