// A stream of messages to a client, sent one after the other as the client takes them, for calls
// whose messages are few or made on demand. Its life is the call's: Start makes it, gRPC's OnDone
// ends it; others may share it for longer, and then what they send goes nowhere.
//
// A client that takes no message for too long is cancelled (ActiveCalls), as is one that goes away.
#pragma once

#include <grpcpp/server_context.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "core/base/clock.h"
#include "server/calls/active_calls.h"
#include "server/calls/message_stream.h"
#include "server/calls/serialize.h"

namespace latentd::server::calls {

// Thread-safe.
template <typename Message>
class QueuedStream final : public MessageStream,
                           public ActiveCall,
                           public std::enable_shared_from_this<QueuedStream<Message>> {
 public:
  // What is passed in outlives the call.
  static std::shared_ptr<QueuedStream> Start(grpc::CallbackServerContext& context,
                                             const Clock& clock, ActiveCalls& calls) {
    std::shared_ptr<QueuedStream> stream(new QueuedStream(context, clock, calls));
    calls.Add(stream);  // before it owns itself: there may be no memory for it
    stream->self_ = stream;
    return stream;
  }

  // `on_taken` runs whenever the client has taken all that was sent and the end has not been said.
  // It must not throw. REQUIRES: called before the first Send.
  void OnTaken(std::function<void()> on_taken) { on_taken_ = std::move(on_taken); }

  // Ignored after End, and once the client is gone. Throws std::bad_alloc where there is no memory
  // to keep the message; where there is none to send it, the stream ends with RESOURCE_EXHAUSTED.
  void Send(Message message) {
    {
      absl::MutexLock lock(&stream_mutex_);
      if (end_ || cancelled_) return;
      waiting_.push_back(std::move(message));
    }
    SendNext();
  }

  // The call ends with `status` when all that was sent before has been taken. Every stream has to
  // be ended.
  void End(const absl::Status& status) {
    {
      absl::MutexLock lock(&stream_mutex_);
      if (!end_) end_ = status;
    }
    SendNext();
  }

  // The client has gone away: nobody needs what comes now.
  bool cancelled() const {
    absl::MutexLock lock(&stream_mutex_);
    return cancelled_;
  }

  void CancelIfStalled(absl::Time now, absl::Duration limit) override {
    absl::MutexLock lock(&stream_mutex_);
    if (context_ != nullptr && now - writing_since_ >= limit) context_->TryCancel();
  }
  void Cancel() override {
    absl::MutexLock lock(&stream_mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }
  int64_t held_bytes() const override {
    absl::MutexLock lock(&stream_mutex_);
    int64_t bytes = 0;
    for (const Message& message : waiting_) bytes += static_cast<int64_t>(message.ByteSizeLong());
    return bytes;
  }

 private:
  QueuedStream(grpc::CallbackServerContext& context, const Clock& clock, ActiveCalls& calls)
      : clock_(clock), calls_(calls), context_(&context) {}

  void OnWritten(bool ok) override {
    bool all = false;
    {
      absl::MutexLock lock(&stream_mutex_);
      writing_since_ = absl::InfiniteFuture();
      if (!ok) cancelled_ = true;
      all = waiting_.empty() && !end_ && !cancelled_;
    }
    if (all && on_taken_) on_taken_();
  }
  void OnCancel() override {
    {
      absl::MutexLock lock(&stream_mutex_);
      cancelled_ = true;
      waiting_.clear();
    }
    SendNext();
  }
  void OnDone() override {
    {
      absl::MutexLock lock(&stream_mutex_);
      context_ = nullptr;
    }
    calls_.Remove(*this);
    self_.reset();
  }

  bool TakeMessage(grpc::ByteBuffer& bytes) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(stream_mutex_) {
    if (waiting_.empty()) return false;
    bytes = Serialize(waiting_.front());
    waiting_.pop_front();
    writing_since_ = clock_.Monotonic();
    return true;
  }
  std::optional<absl::Status> TakeEnd() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(stream_mutex_) {
    if (!end_ && cancelled_) return absl::CancelledError();
    return end_;
  }
  void GiveUp(const absl::Status& status) override {
    absl::MutexLock lock(&stream_mutex_);
    waiting_.clear();
    end_ = status;
  }

  const Clock& clock_;
  ActiveCalls& calls_;
  std::shared_ptr<QueuedStream> self_;  // from Start to OnDone
  std::function<void()> on_taken_;
  // Null once it is done.
  grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(stream_mutex_);
  std::deque<Message> waiting_ ABSL_GUARDED_BY(stream_mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(stream_mutex_);
  bool cancelled_ ABSL_GUARDED_BY(stream_mutex_) = false;
  absl::Time writing_since_ ABSL_GUARDED_BY(stream_mutex_) = absl::InfiniteFuture();
};

}  // namespace latentd::server::calls
