// Rules for failed generations: which are tried again, and when.
//
// A generation leaves nothing behind but its pictures, and its seed determines those; so it may be
// done twice as long as no picture has been received. What is tried again is what another try, or
// another replica behind the same address, can do better:
//
//   UNAVAILABLE         loading, draining, the connection broke; a proxy's 502 to 504. Not where
//   nothing
//                       listens at the address, or its host is unknown, at the first try: `latent
//                       health --wait` waits for a server that is being started
//   RESOURCE_EXHAUSTED  with a retry delay: the queue is full
//   UNKNOWN             the stream ended without a status, as a proxy passes on that a server died;
//                       latentd never says it
//   CANCELLED           by the other side: the server stopped, or a proxy reset the stream; not
//   where
//                       CancelGeneration ended it (reason STREAM_DROPPED)
//   INTERNAL            where it says that the stream was reset; a fault of the server would recur
//
// gRPC's transparent retries (once, of what no server has begun) stay on beneath this. Its retry
// policies do not fit, so none is configured: they know neither pictures nor the difference between
// a full queue and no memory, and would multiply with these.
#pragma once

#include <grpcpp/support/status.h>

#include <functional>
#include <optional>

#include "absl/time/time.h"
#include "core/base/clock.h"

namespace latentd::client {

struct RetryPolicy {
  int retries = 4;  // after the first try; 0: none
  // Without a delay from the server: doubles from the first to the longest.
  absl::Duration first_pause = absl::Milliseconds(200);
  absl::Duration longest_pause = absl::Seconds(5);
};

// A try that failed and will be followed by another one.
struct Retry {
  grpc::Status status;
  int number = 0;  // number of the next try: 1 for the first retry
  absl::Duration pause;
};

// Pauses between tries, with jitter so that clients do not come back all at once. Not thread-safe.
class RetrySchedule {
 public:
  // `random` returns numbers from 0 to 1.
  RetrySchedule(const RetryPolicy& policy, std::function<double()> random);

  // How long to wait after a try without pictures that ended in `status`: the server's delay and up
  // to a quarter more, or half to all of this try's pause. Nothing: it is not to be tried again, or
  // not so often, or `left` is no longer than that.
  std::optional<absl::Duration> PauseAfter(const grpc::Status& status, absl::Duration left);

 private:
  const std::function<double()> random_;
  const absl::Duration longest_pause_;
  int retries_;
  absl::Duration pause_;
};

struct Attempt {
  grpc::Status status;
  bool image_received = false;
};

struct RetryLoop {
  const RetryPolicy& policy;
  const Clock& clock;
  std::function<double()> random;
  std::function<bool(absl::Duration)> wait;    // true if cancelled before or meanwhile
  std::function<void(const Retry&)> on_retry;  // may be empty

  // Calls `attempt` until it succeeds, or fails for good or too often; returns its last status, or
  // CANCELLED. `deadline` is one of the clock's Monotonic.
  grpc::Status Run(absl::Time deadline, const std::function<Attempt()>& attempt) const;
};

}  // namespace latentd::client
