// A stream of messages to a client, sent one after the other as the client takes them, for calls
// whose messages are few or made on demand. Its life is the call's: Start makes it, gRPC's OnDone
// ends it; others may share it for longer, and then what they send goes nowhere.
//
// A client that takes no message for too long is cancelled (ActiveCalls), as is one that goes away.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "core/base/clock.h"
#include "core/base/out_of_memory.h"
#include "server/calls/active_calls.h"
#include "server/calls/grpc_status.h"
#include "server/calls/serialize.h"

namespace latentd::server::calls {

// Thread-safe.
template <typename Message>
class QueuedStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
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
      absl::MutexLock lock(&mutex_);
      if (end_ || cancelled_) return;
      waiting_.push_back(std::move(message));
    }
    Advance();
  }

  // The call ends with `status` when all that was sent before has been taken. Every stream has to
  // be ended.
  void End(const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      if (!end_) end_ = status;
    }
    Advance();
  }

  // The client has gone away: nobody needs what comes now.
  bool cancelled() const {
    absl::MutexLock lock(&mutex_);
    return cancelled_;
  }

  void CancelIfStalled(absl::Time now, absl::Duration limit) override {
    absl::MutexLock lock(&mutex_);
    if (context_ != nullptr && now - writing_since_ >= limit) context_->TryCancel();
  }
  void Cancel() override {
    absl::MutexLock lock(&mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }
  int64_t held_bytes() const override {
    absl::MutexLock lock(&mutex_);
    int64_t bytes = 0;
    for (const Message& message : waiting_) bytes += static_cast<int64_t>(message.ByteSizeLong());
    return bytes;
  }

 private:
  enum class Next { kNothing, kWrite, kFinish };

  QueuedStream(grpc::CallbackServerContext& context, const Clock& clock, ActiveCalls& calls)
      : clock_(clock), calls_(calls), context_(&context) {}

  void OnWriteDone(bool ok) override {
    bool taken = false;
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      writing_since_ = absl::InfiniteFuture();
      if (!ok) cancelled_ = true;
      taken = waiting_.empty() && !end_ && !cancelled_;
    }
    if (taken && on_taken_) on_taken_();
    Advance();
  }
  void OnCancel() override {
    {
      absl::MutexLock lock(&mutex_);
      cancelled_ = true;
      waiting_.clear();
    }
    Advance();
  }
  void OnDone() override {
    {
      absl::MutexLock lock(&mutex_);
      context_ = nullptr;
    }
    calls_.Remove(*this);
    self_.reset();
  }

  void Advance() {
    Next next = Next::kNothing;
    const absl::Status taken = CatchOutOfMemory([&] {
      absl::MutexLock lock(&mutex_);
      next = TakeNext();
      return absl::OkStatus();
    });
    if (!taken.ok()) next = GiveUp(taken);
    if (next == Next::kWrite) StartWrite(&bytes_);
    if (next == Next::kFinish) Finish(FinalStatus(status_));
  }

  // The client cannot be told what comes next; the end needs no memory.
  Next GiveUp(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    waiting_.clear();
    end_ = status;
    return TakeNext();
  }

  Next TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || finished_) return Next::kNothing;
    if (!waiting_.empty()) {
      bytes_ = Serialize(waiting_.front());
      waiting_.pop_front();
      writing_ = true;
      writing_since_ = clock_.Monotonic();
      return Next::kWrite;
    }
    if (!end_ && !cancelled_) return Next::kNothing;
    finished_ = true;
    status_ = end_ ? *end_ : absl::CancelledError();
    return Next::kFinish;
  }

  const Clock& clock_;
  ActiveCalls& calls_;
  std::shared_ptr<QueuedStream> self_;  // from Start to OnDone
  std::function<void()> on_taken_;
  mutable absl::Mutex mutex_;
  grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(mutex_);  // null once it is done
  std::deque<Message> waiting_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time writing_since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  // These belong to whoever set writing_ or finished_, until gRPC is done with them.
  grpc::ByteBuffer bytes_;
  absl::Status status_;
};

}  // namespace latentd::server::calls
