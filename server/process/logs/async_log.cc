#include "server/process/logs/async_log.h"

#include <poll.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/threads/threads.h"

namespace latentd::server::process {
namespace {

using spdlog::details::log_msg;

struct Line {
  spdlog::level::level_enum level = spdlog::level::off;
  spdlog::log_clock::time_point time;
  std::string text;
};

// A line that cannot be written is lost: there is no other place to report it.
void WriteAll(int file, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = write(file, bytes, size);
    if (written >= 0) {
      bytes += written;
      size -= static_cast<size_t>(written);
    } else if (errno == EAGAIN) {  // another process that shares the file has made it so
      pollfd room = {.fd = file, .events = POLLOUT, .revents = 0};
      poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace

// The lines that wait, as loggers see them, and what the thread does with them. spdlog's own queue
// (async_logger) counts lines and not bytes. Its locks are here, not in base_sink.
class AsyncLog::Queue : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit Queue(const Options& options)
      : base_sink(std::make_unique<spdlog::pattern_formatter>(options.pattern,
                                                              spdlog::pattern_time_type::utc)),
        options_(options) {}

  // The thread's: writes what comes until Stop, and what waits then.
  void WriteLines() ABSL_LOCKS_EXCLUDED(mutex_);
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  bool Flush(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t dropped() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t waiting_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 protected:
  void sink_it_(const log_msg& message) override ABSL_LOCKS_EXCLUDED(mutex_);
  void flush_() override {}
  void set_pattern_(const std::string&) override {}
  void set_formatter_(std::unique_ptr<spdlog::formatter>) override {}

 private:
  struct Next {
    size_t dropped = 0;  // lines that this one stands for; 0: it is one that was logged
    Line line;
  };

  void Add(Line line) ABSL_LOCKS_EXCLUDED(mutex_);
  Line TakeOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteDropped(const Line& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsTooMuch() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return lines_.size() > options_.most_lines || bytes_ > options_.most_bytes;
  }
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stop_ || untold_ > 0 || !lines_.empty();
  }
  // Waits for one. False: there is none any more.
  bool Take(Next& next) ABSL_LOCKS_EXCLUDED(mutex_);
  void Write(const Next& next);

  const Options options_;
  mutable absl::Mutex mutex_;
  std::deque<Line> lines_ ABSL_GUARDED_BY(mutex_);  // the oldest first
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;        // bytes of the texts
  int64_t added_ ABSL_GUARDED_BY(mutex_) = 0;       // lines, since the start
  int64_t settled_ ABSL_GUARDED_BY(mutex_) = 0;     // the first so many of them, written or dropped
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t untold_ ABSL_GUARDED_BY(mutex_) = 0;  // dropped lines that are not reported yet
  spdlog::log_clock::time_point last_dropped_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
};

void AsyncLog::Queue::sink_it_(const log_msg& message) {
  const absl::Status added = CatchOutOfMemory([&] {
    Add({message.level, message.time, std::string(message.payload.data(), message.payload.size())});
  });
  if (added.ok()) return;
  absl::MutexLock lock(&mutex_);
  NoteDropped({.time = message.time});
}

void AsyncLog::Queue::Add(Line line) {
  const size_t bytes = line.text.size();
  absl::MutexLock lock(&mutex_);
  if (bytes > options_.most_bytes) return NoteDropped(line);
  lines_.push_back(std::move(line));
  bytes_ += bytes;
  ++added_;
  while (IsTooMuch()) NoteDropped(TakeOldest());
}

Line AsyncLog::Queue::TakeOldest() {
  Line oldest = std::move(lines_.front());
  lines_.pop_front();
  bytes_ -= oldest.text.size();
  return oldest;
}

void AsyncLog::Queue::NoteDropped(const Line& line) {
  ++dropped_;
  ++untold_;
  last_dropped_ = line.time;
}

// The caller has written the lines that it took before.
bool AsyncLog::Queue::Take(Next& next) {
  next = {};
  absl::MutexLock lock(&mutex_);
  if (untold_ == 0) settled_ = added_ - static_cast<int64_t>(lines_.size());
  mutex_.Await(absl::Condition(this, &Queue::HasWork));
  if (untold_ > 0) {
    next.dropped = std::exchange(untold_, 0);
    next.line = {.level = spdlog::level::warn, .time = last_dropped_};
    return true;
  }
  if (lines_.empty()) return false;
  next.line = TakeOldest();
  return true;
}

void AsyncLog::Queue::Write(const Next& next) {
  const Line& line = next.line;
  const std::string told = next.dropped > 0 ? options_.dropped_text(next.dropped) : std::string();
  log_msg message({}, line.level, next.dropped > 0 ? told : line.text);
  message.time = line.time;
  spdlog::memory_buf_t text;
  formatter_->format(message, text);
  WriteAll(options_.file, text.data(), text.size());
}

void AsyncLog::Queue::WriteLines() {
  Next next;
  while (Take(next)) {
    const absl::Status written = CatchOutOfMemory([&] { Write(next); });
    // A lost report of dropped lines is not reported again: that would have to be written, too.
    if (written.ok() || next.dropped > 0) continue;
    absl::MutexLock lock(&mutex_);
    NoteDropped(next.line);
  }
}

void AsyncLog::Queue::Stop() {
  absl::MutexLock lock(&mutex_);
  stop_ = true;
}

bool AsyncLog::Queue::Flush(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const int64_t before = added_;
  const auto settled = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return settled_ >= before; };
  return mutex_.AwaitWithTimeout(absl::Condition(&settled), timeout);
}

int64_t AsyncLog::Queue::dropped() const {
  absl::MutexLock lock(&mutex_);
  return dropped_;
}

int64_t AsyncLog::Queue::waiting_bytes() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int64_t>(bytes_);
}

AsyncLog::AsyncLog(const Options& options)
    : queue_(std::make_shared<Queue>(options)),
      logger_(std::make_shared<spdlog::logger>("latentd", queue_)),
      thread_(StartThread("log", [queue = queue_] { queue->WriteLines(); })) {}

AsyncLog::~AsyncLog() {
  queue_->Stop();
  thread_.join();
}

bool AsyncLog::Flush(absl::Duration timeout) { return queue_->Flush(timeout); }

int64_t AsyncLog::dropped() const { return queue_->dropped(); }

int64_t AsyncLog::waiting_bytes() const { return queue_->waiting_bytes(); }

}  // namespace latentd::server::process
