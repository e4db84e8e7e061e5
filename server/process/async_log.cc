#include "server/process/async_log.h"

#include <poll.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/fatal.h"
#include "core/base/threads.h"

namespace latentd::server::process {
namespace {

using spdlog::details::thread_pool;

std::shared_ptr<thread_pool> StartPool(size_t most_lines) {
  try {
    return std::make_shared<thread_pool>(most_lines, 1, [] { NameThisThread("log"); });
  } catch (const std::system_error& error) {
    Fatal(absl::StrCat("cannot start the thread 'log': ",
                       ExplainSystemError(error.code().value(), error.what())));
  }
}

// A line that cannot be written is gone: there is nobody to tell.
void WriteAll(int file, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = write(file, bytes, size);
    if (written >= 0) {
      bytes += written;
      size -= static_cast<size_t>(written);
    } else if (errno == EAGAIN) {  // somebody who shares the file has made it so
      pollfd room = {.fd = file, .events = POLLOUT, .revents = 0};
      poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace

// Called by the thread alone.
class AsyncLog::Sink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // `threads` outlives what it calls.
  Sink(const Options& options, thread_pool& threads)
      : file_(options.file), dropped_text_(options.dropped_text), threads_(threads) {
    set_formatter(std::make_unique<spdlog::pattern_formatter>(options.pattern,
                                                              spdlog::pattern_time_type::utc));
  }

  bool WaitForFlushes(int64_t count, absl::Duration timeout) ABSL_LOCKS_EXCLUDED(flushes_mutex_) {
    absl::MutexLock lock(&flushes_mutex_);
    const auto reached = [&]() ABSL_SHARED_LOCKS_REQUIRED(flushes_mutex_) {
      return flushes_ >= count;
    };
    return flushes_mutex_.AwaitWithTimeout(absl::Condition(&reached), timeout);
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& line) override {
    TellDropped(line);
    Write(line);
  }
  void flush_() override ABSL_LOCKS_EXCLUDED(flushes_mutex_) {
    absl::MutexLock lock(&flushes_mutex_);
    ++flushes_;
  }

 private:
  void TellDropped(const spdlog::details::log_msg& next) {
    const size_t dropped = threads_.overrun_counter();
    const size_t untold = dropped - std::exchange(told_, dropped);
    if (untold == 0) return;
    const std::string text = dropped_text_(untold);
    spdlog::details::log_msg line(next.logger_name, spdlog::level::warn, text);
    line.time = next.time;
    Write(line);
  }
  void Write(const spdlog::details::log_msg& line) {
    spdlog::memory_buf_t text;
    formatter_->format(line, text);
    WriteAll(file_, text.data(), text.size());
  }

  const int file_;
  const std::function<std::string(size_t)> dropped_text_;
  thread_pool& threads_;
  size_t told_ = 0;  // lines that were dropped
  absl::Mutex flushes_mutex_;
  int64_t flushes_ ABSL_GUARDED_BY(flushes_mutex_) = 0;  // that what came before is written for
};

AsyncLog::AsyncLog(const Options& options)
    : threads_(StartPool(options.most_lines)),
      sink_(std::make_shared<Sink>(options, *threads_)),
      logger_(std::make_shared<spdlog::async_logger>(
          "latentd", sink_, threads_, spdlog::async_overflow_policy::overrun_oldest)) {}

// First, since the thread uses the others until it is joined.
AsyncLog::~AsyncLog() { threads_.reset(); }

// A flush waits among the lines, and may be dropped as they are: then it takes the whole timeout.
bool AsyncLog::Flush(absl::Duration timeout) {
  int64_t count = 0;
  {
    absl::MutexLock lock(&mutex_);
    count = ++flushes_;
    logger_->flush();
  }
  return sink_->WaitForFlushes(count, timeout);
}

}  // namespace latentd::server::process
