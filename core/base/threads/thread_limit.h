// The limit on this process's threads, met before there is work to lose: libraries end a process
// that gets no more (OpenMP, gRPC).
//
// Thread-safe: free functions without state.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace latentd {

// As StartThread (core/base/threads/threads.h), for work that there is another way to do:
// RESOURCE_EXHAUSTED where the process gets no thread, and `body` is never called.
absl::StatusOr<std::thread> TryStartThread(std::string name, std::function<void()> body);

// FAILED_PRECONDITION: this process cannot have that many threads beside those that it has, or
// their stacks are too small (`ulimit -s`), which would end it without a word. The message says how
// many, and the limits that there are. Starts them all, and ends them.
absl::Status CheckThreads(int count);

// The limits on threads that this process is under, by the names of what sets them, or that there
// are none: "pids.max of /sys/fs/cgroup/pids/x is 16, ulimit -u is 100".
std::string ThreadLimitsText();

// From now on, a process that a library ends by std::exit from another thread than the main one, as
// OpenMP does where it gets no more, ends with exit code 1 and a line that has these limits
// (core/base/errors/fatal.h), and without cleaning up, which would destroy what other threads are
// using.
void ExplainExit();

}  // namespace latentd
