// Tries algorithms of matrix products in a child process: one that faults ends the child, where it
// would leave this process without a GPU.
//
// The two talk in packets on a socket, the child's standard input. The child says which algorithm
// it is about to run, so that when it ends, or hangs, that one is to blame: it is left out, and
// another child goes on. One that has had nothing to do for a while ends by itself.
//
// Internal to this directory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/backends/chooser.h"
#include "core/backends/cuda/libraries/cublas_lt.h"
#include "core/backends/cuda/trial/trial_packets.h"
#include "core/base/files/files.h"

namespace latentd::backends::cuda {

// Thread-safe: a second caller waits while it tries a product.
class TrialProcess {
 public:
  struct Options {
    std::vector<std::string> command;             // a program that calls ServeTrials
    absl::Duration patience = absl::Seconds(30);  // with one algorithm
    std::function<void()> on_fault = {};          // called for each algorithm that is left out
    std::function<void(absl::string_view)> warn = {};
  };
  explicit TrialProcess(Options options) : options_(std::move(options)) {}
  // Ends the child.
  ~TrialProcess();
  TrialProcess(const TrialProcess&) = delete;

  // As CublasLt::Choose in the child. UNAVAILABLE: no child can be had that tries anything, and
  // none will.
  absl::StatusOr<Choice> Choose(const ProductShape& shape) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Child {
    pid_t process;
    FileDescriptor socket;
  };

  void LeaveOut(std::string algorithm, const std::string& how, TrialTask& task) const;
  absl::Status NoUse() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Start() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How it ended: "signal 11".
  std::string End() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The child's answer; nullopt: it ended, or hangs, at the algorithm `at` ("", as it is given:
  // none yet).
  std::optional<absl::StatusOr<Choice>> Ask(const TrialTask& task, std::string& at)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // nullopt: there is none within `patience`.
  std::optional<TrialReport> Receive(absl::Duration patience) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  absl::Mutex mutex_;
  std::optional<Child> child_ ABSL_GUARDED_BY(mutex_);
  uint32_t tasks_ ABSL_GUARDED_BY(mutex_) = 0;  // number of all tasks so far
  bool of_no_use_ ABSL_GUARDED_BY(mutex_) = false;
};

// The child's function for a task.
using TryProduct =
    std::function<absl::StatusOr<Choice>(const ProductShape& shape, const TrialWatch& watch)>;

// The child's part, until the parent has gone or given it nothing for a while: the exit code. A
// device's fault ends the process at once, without an answer.
int ServeTrials(int socket, const TryProduct& try_product);

}  // namespace latentd::backends::cuda
