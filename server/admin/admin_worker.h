// A thread for what operators ask for and takes time: gRPC's threads must not wait for disks or
// compilers. One piece of work at a time, in the order in which it came; bounded.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "core/base/threads/worker.h"
#include "server/admin/operator_check.h"

namespace latentd::server::admin {

inline constexpr size_t kMaxWaitingWork = 16;

// Thread-safe.
class AdminWorker {
 public:
  // `thread_name` has at most 15 bytes.
  AdminWorker(const std::string& thread_name, OperatorCheck check);

  // Judges the caller of a call whose work is to be added.
  absl::Status CheckCaller(const grpc::CallbackServerContext& context) const {
    return check_(context);
  }

  // `work` runs once, later, iff this returns OK; RESOURCE_EXHAUSTED (reason QUEUE_FULL, with a
  // retry delay) where kMaxWaitingWork wait behind one that runs.
  absl::Status Add(std::function<void()> work);

  // The next part of work that Add took, or that a ticket lets in: not refused. A call has one such
  // part at a time.
  void Continue(std::function<void()> work);

 private:
  const OperatorCheck check_;
  Worker worker_;  // runs, when it goes, what still waits
};

}  // namespace latentd::server::admin
