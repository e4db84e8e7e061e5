// Log lines on their way to a file: a thread writes them, so that who logs never waits for who
// reads the log. So many lines may wait, and so many bytes; of more the oldest are dropped, and a
// line in their place says how many.
//
// Thread-safe.
#pragma once

#include <spdlog/logger.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/time.h"

namespace latentd::server::process {

class AsyncLog {
 public:
  struct Options {
    int file = -1;  // a descriptor, which stays open
    // Limits of lines that wait beside the one being written. Bytes are of the lines' texts; a line
    // that has more of them alone is dropped itself, and drives out no other.
    size_t most_lines = 0;
    size_t most_bytes = 0;
    std::string pattern;  // spdlog's, of UTC
    // Text of the line, of level warning, that stands for lines that were dropped.
    std::function<std::string(size_t dropped)> dropped_text;
  };

  // A process that gets no thread ends here (core/base/threads/threads.h).
  explicit AsyncLog(const Options& options);
  // Writes all waiting lines, however long that takes. REQUIRES: no thread logs any more.
  ~AsyncLog();

  // With the options' pattern, whatever it is given later.
  const std::shared_ptr<spdlog::logger>& logger() const { return logger_; }

  // Waits until what was logged before is written or dropped, or `timeout` has passed. Whether it
  // is.
  bool Flush(absl::Duration timeout);

  // Lines, since the start: with those that there was no memory for.
  int64_t dropped() const;

  // Bytes of the texts of lines that wait.
  int64_t waiting_bytes() const;

 private:
  class Queue;

  const std::shared_ptr<Queue> queue_;
  const std::shared_ptr<spdlog::logger> logger_;
  std::thread thread_;
};

}  // namespace latentd::server::process
