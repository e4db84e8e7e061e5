#include "server/tracing/span_sender.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/errors/out_of_memory.h"
#include "core/base/threads/threads.h"
#include "server/process/logs/utf8_message.h"

namespace latentd::server::tracing {
namespace {

// True for codes after which the protocol allows a retry.
bool IsTransient(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::Duration NextPause(absl::Duration last, absl::Duration first, absl::Duration longest) {
  return std::clamp(2 * last, std::min(first, longest), longest);
}

SpanSender::SpanSender(Options options, Collector collector, Resource resource,
                       metrics::Registry& registry, const Clock& clock, Write write)
    : options_(options),
      collector_(std::move(collector)),
      resource_(std::move(resource)),
      clock_(clock),
      write_(std::move(write)),
      sent_(registry.GetCounter(metrics::kSpansSent)),
      dropped_full_(registry.GetCounter(metrics::kSpansDropped, {"queue_full"})),
      dropped_refused_(registry.GetCounter(metrics::kSpansDropped, {"refused"})),
      dropped_stopped_(registry.GetCounter(metrics::kSpansDropped, {"stopped"})),
      thread_(StartThread("spans", [this] { Loop(); })) {}

SpanSender::~SpanSender() { SendLast(absl::ZeroDuration()); }

void SpanSender::Add(std::vector<Span> spans) {
  absl::MutexLock lock(&mutex_);
  const size_t room = over_ ? 0 : options_.most_waiting - waiting_.size();
  const size_t taken = std::min(room, spans.size());
  waiting_.insert(waiting_.end(), std::make_move_iterator(spans.begin()),
                  std::make_move_iterator(spans.begin() + static_cast<std::ptrdiff_t>(taken)));
  (over_ ? dropped_stopped_ : dropped_full_).Increment(static_cast<double>(spans.size() - taken));
}

void SpanSender::SendLast(absl::Duration timeout) {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    if (!is_last()) last_ = clock_.Monotonic() + timeout;
    mutex_.AwaitWithTimeout(absl::Condition(&over_), timeout);
  }
  collector_.cancel();
  thread_.join();
  DropAll();
}

void SpanSender::Loop() {
  absl::Duration pause;
  while (true) {
    const bool is_last = WaitForSpans(pause);
    const absl::Status sent = CatchOutOfMemory([&] { return Send(Oldest()); });
    absl::MutexLock lock(&mutex_);
    // Failures at the end are not retried.
    over_ = is_last && (waiting_.empty() || !sent.ok());
    if (over_) return;
    pause = sent.ok() ? absl::ZeroDuration()
                      : NextPause(pause, options_.first_pause, options_.longest_pause);
  }
}

bool SpanSender::WaitForSpans(absl::Duration pause) {
  absl::MutexLock lock(&mutex_);
  const auto is_last = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return this->is_last(); };
  if (pause > absl::ZeroDuration()) mutex_.AwaitWithTimeout(absl::Condition(&is_last), pause);
  mutex_.Await(absl::Condition(this, &SpanSender::has_span));
  mutex_.AwaitWithTimeout(absl::Condition(this, &SpanSender::has_batch), options_.period);
  return this->is_last();
}

std::vector<Span> SpanSender::Oldest() const {
  absl::MutexLock lock(&mutex_);
  const size_t size = std::min(waiting_.size(), options_.batch);
  return {waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(size)};
}

absl::Status SpanSender::Send(std::vector<Span> batch) {
  if (batch.empty()) return absl::OkStatus();
  const size_t size = batch.size();
  ExportRequest request;
  auto& spans = *request.add_resource_spans();
  *spans.mutable_resource() = resource_;
  auto& scope = *spans.add_scope_spans();
  scope.mutable_scope()->set_name("latentd");
  for (Span& span : batch) *scope.add_spans() = std::move(span);
  process::MakeUtf8(request);
  const absl::StatusOr<int64_t> refused =
      collector_.send(request, std::min(options_.timeout, TimeLeft()));
  LogChange(refused.status());
  if (IsTransient(refused.status())) return refused.status();
  const auto lost = refused.ok() ? std::clamp<int64_t>(*refused, 0, static_cast<int64_t>(size))
                                 : static_cast<int64_t>(size);
  dropped_refused_.Increment(static_cast<double>(lost));
  sent_.Increment(static_cast<double>(static_cast<int64_t>(size) - lost));
  Forget(size);
  return absl::OkStatus();
}

absl::Duration SpanSender::TimeLeft() const {
  absl::MutexLock lock(&mutex_);
  return std::max(last_ - clock_.Monotonic(), absl::ZeroDuration());
}

void SpanSender::Forget(size_t spans) {
  absl::MutexLock lock(&mutex_);
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(spans));
}

void SpanSender::DropAll() {
  std::deque<Span> dropped;
  {
    absl::MutexLock lock(&mutex_);
    over_ = true;
    dropped.swap(waiting_);
  }
  if (dropped.empty()) return;
  dropped_stopped_.Increment(static_cast<double>(dropped.size()));
  write_(latent::v1::WARNING, "spans were not sent before the end",
         {{"collector", collector_.address}, {"spans", dropped.size()}});
}

void SpanSender::LogChange(const absl::Status& status) {
  if (status.ok() != failing_) return;
  failing_ = !status.ok();
  if (failing_) {
    write_(latent::v1::WARNING, "spans cannot be sent",
           {{"collector", collector_.address}, {"error", status.ToString()}});
  } else {
    write_(latent::v1::INFO, "spans are sent again", {{"collector", collector_.address}});
  }
}

}  // namespace latentd::server::tracing
