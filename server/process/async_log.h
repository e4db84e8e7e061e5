// Log lines on their way to a file: a thread of spdlog's writes them, so that who logs never waits
// for who reads the log. So many may wait; of more the oldest are dropped, and a line in their
// place says how many.
//
// Thread-safe.
#pragma once

#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace latentd::server::process {

class AsyncLog {
 public:
  struct Options {
    int file = -1;  // a descriptor, which stays open
    size_t most_lines = 0;
    std::string pattern;  // spdlog's, of UTC
    // What the line says, of level warning, that stands for lines that were dropped.
    std::function<std::string(size_t dropped)> dropped_text;
  };

  // A process that gets no thread ends here (core/base/threads.h).
  explicit AsyncLog(const Options& options);
  // Writes what waits, however long that takes. Nobody logs any more.
  ~AsyncLog();

  const std::shared_ptr<spdlog::async_logger>& logger() const { return logger_; }

  // Waits until what was logged before is written or dropped, or `timeout` has passed. Whether it
  // is.
  bool Flush(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  // Lines, since the start.
  int64_t dropped() const { return static_cast<int64_t>(threads_->overrun_counter()); }

 private:
  class Sink;

  std::shared_ptr<spdlog::details::thread_pool> threads_;
  const std::shared_ptr<Sink> sink_;
  const std::shared_ptr<spdlog::async_logger> logger_;
  absl::Mutex mutex_;
  int64_t flushes_ ABSL_GUARDED_BY(mutex_) = 0;  // asked for
};

}  // namespace latentd::server::process
