// Sends spans to a collector from a thread of its own: a thread that ends one leaves it here and
// goes on. Spans that the collector cannot take yet wait, up to a bound, beyond which they are
// dropped and counted.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/metrics/registry.h"
#include "otlp/trace_service.pb.h"
#include "server/process/logs/log.h"

namespace latentd::server::tracing {

using ExportRequest = opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
using Resource = opentelemetry::proto::collector::trace::v1::Resource;
using Span = opentelemetry::proto::collector::trace::v1::Span;

// The pause after one more failure: none before the first, then twice the last one, up to a bound.
absl::Duration NextPause(absl::Duration last, absl::Duration first, absl::Duration longest);

class SpanSender {
 public:
  struct Options {
    size_t most_waiting = 2048;                  // spans, those of the batch under way among them
    size_t batch = 512;                          // at most, of one message
    absl::Duration period = absl::Seconds(1);    // longest wait of a span for others
    absl::Duration timeout = absl::Seconds(10);  // limit for one message
    absl::Duration first_pause = absl::Seconds(1), longest_pause = absl::Seconds(30);
  };

  // The destination of spans. Called by the sender's thread, but `cancel` by any.
  struct Collector {
    std::string address;  // for the log
    // How many of the spans were refused. An error of which IsTransient may pass; any other says
    // that none of them will ever be taken.
    std::function<absl::StatusOr<int64_t>(const ExportRequest& request, absl::Duration timeout)>
        send;
    // Ends what `send` is at, and from then on all that it is called for.
    std::function<void()> cancel;
  };

  using Write = std::function<void(latent::v1::LogLevel, absl::string_view message,
                                   const process::LogFields&)>;

  // `registry` and `clock` must outlive it.
  SpanSender(Options options, Collector collector, Resource resource, metrics::Registry& registry,
             const Clock& clock, Write write);
  // Drops what waits.
  ~SpanSender();

  // Returns at once.
  void Add(std::vector<Span> spans) ABSL_LOCKS_EXCLUDED(mutex_);

  // Sends what waits, each batch once, for at most `timeout`, and ends the thread; what cannot be
  // sent is dropped, and so is what is added from now on. Blocks; does nothing the second time. Not
  // by two threads at once.
  void SendLast(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until there is something to send, or no more may come: then it says so. Asks for no
  // memory.
  bool WaitForSpans(absl::Duration pause) ABSL_LOCKS_EXCLUDED(mutex_);
  // As many as one message has; they go on waiting.
  std::vector<Span> Oldest() const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Send(std::vector<Span> batch) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Duration TimeLeft() const ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget(size_t spans) ABSL_LOCKS_EXCLUDED(mutex_);
  void DropAll() ABSL_LOCKS_EXCLUDED(mutex_);
  // Once for a time of failing, and once for its end.
  void LogChange(const absl::Status& status);

  bool is_last() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return last_ != absl::InfiniteFuture();
  }
  bool has_span() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return !waiting_.empty() || is_last();
  }
  bool has_batch() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return waiting_.size() >= options_.batch || is_last();
  }

  const Options options_;
  const Collector collector_;
  const Resource resource_;
  const Clock& clock_;
  const Write write_;
  metrics::Counter& sent_;
  metrics::Counter& dropped_full_;
  metrics::Counter& dropped_refused_;
  metrics::Counter& dropped_stopped_;

  mutable absl::Mutex mutex_;
  std::deque<Span> waiting_ ABSL_GUARDED_BY(mutex_);
  // Until when the last may be sent (monotonic); InfiniteFuture: more may come.
  absl::Time last_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  bool over_ ABSL_GUARDED_BY(mutex_) = false;  // the thread is done
  bool failing_ = false;                       // the thread's
  std::thread thread_;                         // the last: it uses the others
};

}  // namespace latentd::server::tracing
