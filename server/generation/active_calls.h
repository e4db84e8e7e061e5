// The calls that take a while and have not ended: for finding those whose client reads or sends
// nothing, and for waiting until the last one is done.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/engine/engine.h"
#include "server/generation/held_request.h"
#include "server/tracing/span_sender.h"

namespace latentd::server::generation {

// By default, a client that takes no message for this long is cancelled: pictures that wait hold
// memory.
inline constexpr absl::Duration kStallLimit = absl::Seconds(60);

class ActiveCalls;
class KeptStreams;

// The caller whose key a call shows.
struct KeyHolder {
  std::string caller;  // "key:NAME"
  bool is_operator = false;
};

// The holder of a call's key, by the values of its metadata or headers "authorization" and
// "x-api-key", of which empty ones are not there. UNAUTHENTICATED: it is no key of this server's.
// Thread-safe.
using KeyCheck = std::function<absl::StatusOr<KeyHolder>(absl::string_view authorization,
                                                         absl::string_view api_key)>;

// Objects that calls need; all of them outlive the calls.
struct CallEnvironment {
  engine::Engine& engine;
  const Clock& clock;
  ActiveCalls& calls;
  KeptStreams& kept;
  tracing::SpanSender* spans = nullptr;  // null: spans go nowhere
  KeyCheck holder_of_key = nullptr;      // null: callers need no key
};

// One call, as seen from outside of it. It owns itself from Enter, which its maker calls,
// until Leave, which the end of its transport does. Others may share it for longer. Thread-safe.
class ActiveCall : public std::enable_shared_from_this<ActiveCall> {
 public:
  virtual ~ActiveCall() = default;

  // Throws std::bad_alloc before the call owns itself. REQUIRES: a shared_ptr owns it.
  void Enter();

  // Cancels the call if its client has been waited for since `limit` before `now` (monotonic).
  void CancelIfStalled(absl::Time now, absl::Duration limit) ABSL_LOCKS_EXCLUDED(call_mutex_);

  // Cancels the call if a finished picture has waited since then to be read, in part or whole.
  virtual void CancelIfUnread(absl::Time now, absl::Duration limit) {}

  void Cancel() ABSL_LOCKS_EXCLUDED(call_mutex_);

  // Bytes of pictures that wait for the client.
  virtual int64_t held_bytes() const = 0;

  // Bytes of its request that it holds.
  virtual HeldRequest::Bytes request_bytes() const { return {}; }

 protected:
  explicit ActiveCall(CallEnvironment environment) : environment_(environment) {}

  // The transport is done with the call, which may be gone when this returns.
  void Leave() ABSL_LOCKS_EXCLUDED(call_mutex_);

  // The client has a message to take, or to send, since now; or it has done so.
  void StartWaiting() ABSL_LOCKS_EXCLUDED(call_mutex_);
  void StopWaiting() ABSL_LOCKS_EXCLUDED(call_mutex_);

  const CallEnvironment environment_;

 private:
  // Breaks the transport off, which then ends the call as if its client had gone. From any thread,
  // under a lock, until Leave; must not come back to the call.
  virtual void Abort() = 0;

  std::shared_ptr<ActiveCall> self_;  // from Enter to Leave
  absl::Mutex call_mutex_;
  bool left_ ABSL_GUARDED_BY(call_mutex_) = false;
  absl::Time waiting_since_ ABSL_GUARDED_BY(call_mutex_) = absl::InfiniteFuture();
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

  // True if none was left before `timeout` passed.
  bool WaitUntilEmpty(absl::Duration timeout) const;

  int64_t held_bytes() const;
  HeldRequest::Bytes request_bytes() const;

 private:
  // Calls are used outside of the lock, because what is done to them may remove them.
  std::vector<std::shared_ptr<ActiveCall>> Snapshot() const;

  mutable absl::Mutex mutex_;
  std::map<const ActiveCall*, std::weak_ptr<ActiveCall>> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::server::generation
