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
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/calls/message_stream.h"
#include "server/calls/serialize.h"
#include "server/generation/active_calls.h"

namespace latentd::server::calls {

// Thread-safe.
template <typename Message>
class QueuedStream final : public MessageStream, public generation::ActiveCall {
 public:
  static std::shared_ptr<QueuedStream> Start(generation::CallEnvironment environment,
                                             grpc::CallbackServerContext& context) {
    std::shared_ptr<QueuedStream> stream(new QueuedStream(environment, context));
    stream->Enter();
    return stream;
  }

  // Keeps what it sends into from going away.
  std::shared_ptr<QueuedStream> Share() {
    return std::static_pointer_cast<QueuedStream>(shared_from_this());
  }

  // `on_taken` runs whenever the client has taken all that was sent and the end has not been said.
  // It must not throw. REQUIRES: called before the first Send.
  void OnTaken(std::function<void()> on_taken) { on_taken_ = std::move(on_taken); }

  // Ignored after End, and once the client is gone. Throws std::bad_alloc where there is no memory
  // to keep the message; where there is none to send it, the stream ends with RESOURCE_EXHAUSTED.
  void Send(Message message) {
    {
      absl::MutexLock lock(&stream_mutex_);
      if (has_end()) return;
      waiting_.push_back(std::move(message));
    }
    SendNext();
  }

  using MessageStream::End;

  // True if the client has gone away: events are of no use any more.
  bool cancelled() const {
    absl::MutexLock lock(&stream_mutex_);
    return cancelled_;
  }

  int64_t held_bytes() const override {
    absl::MutexLock lock(&stream_mutex_);
    int64_t bytes = 0;
    for (const Message& message : waiting_) bytes += static_cast<int64_t>(message.ByteSizeLong());
    return bytes;
  }

 private:
  QueuedStream(generation::CallEnvironment environment, grpc::CallbackServerContext& context)
      : ActiveCall(environment), context_(context) {}

  void Abort() override { context_.TryCancel(); }

  void OnWritten(bool ok) override {
    StopWaiting();
    bool all = false;
    {
      absl::MutexLock lock(&stream_mutex_);
      if (!ok) SetCancelled();
      all = waiting_.empty() && !has_end();
    }
    if (all && on_taken_) on_taken_();
  }
  void OnCancel() override {
    {
      absl::MutexLock lock(&stream_mutex_);
      SetCancelled();
      waiting_.clear();
    }
    SendNext();
  }
  void OnDone() override { Leave(); }

  bool TakeMessage(grpc::ByteBuffer& bytes) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(stream_mutex_) {
    if (waiting_.empty()) return false;
    bytes = Serialize(waiting_.front());
    waiting_.pop_front();
    StartWaiting();
    return true;
  }
  void GiveUp(const absl::Status& status) override {
    absl::MutexLock lock(&stream_mutex_);
    waiting_.clear();
    SetEnd(status);
  }
  void SetCancelled() ABSL_EXCLUSIVE_LOCKS_REQUIRED(stream_mutex_) {
    cancelled_ = true;
    SetEnd(absl::CancelledError());
  }

  grpc::CallbackServerContext& context_;  // gRPC's, and alive until OnDone
  std::function<void()> on_taken_;
  std::deque<Message> waiting_ ABSL_GUARDED_BY(stream_mutex_);
  bool cancelled_ ABSL_GUARDED_BY(stream_mutex_) = false;
};

}  // namespace latentd::server::calls
