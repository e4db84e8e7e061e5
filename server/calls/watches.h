// The open calls of a method that tells its clients a state at once and again whenever it changes,
// until the server stops. A client that reads slowly gets the newest state: each call holds one
// message that waits and one in flight. A call for whose message there is no memory ends with
// RESOURCE_EXHAUSTED.
#pragma once

#include <google/protobuf/util/message_differencer.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/base/out_of_memory.h"
#include "server/calls/grpc_status.h"
#include "server/calls/refused_stream.h"
#include "server/calls/serialize.h"

namespace latentd::server::calls {

// Thread-safe. Must outlive the grpc::Server whose calls it has.
template <typename Message>
class Watches {
 public:
  // `state_of` says what clients of a topic are told; it may be called from any thread.
  explicit Watches(std::function<Message(const std::string& topic)> state_of)
      : state_of_(std::move(state_of)) {}

  // The reactor of a new call, for StartOrRefuseWrite.
  absl::StatusOr<WriteReactor*> Start(std::string topic) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    auto watch = std::make_unique<Watch>(*this, std::move(topic));
    Message state = state_of_(watch->topic());
    open_.insert(watch.get());
    Watch* started = watch.release();
    started->Update(std::move(state));
    if (ended_) started->End(Stopping());
    return started;
  }

  // The state may have changed.
  void Update() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    for (Watch* watch : open_) {
      const absl::Status told = CatchOutOfMemory([&] {
        watch->Update(state_of_(watch->topic()));
        return absl::OkStatus();
      });
      if (!told.ok()) watch->End(told);
    }
  }

  // Ends every call, and those to come, once it has been told the last state.
  void End() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    for (Watch* watch : open_) watch->End(Stopping());
  }

 private:
  // One call. Owns itself until gRPC is done with it.
  class Watch final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
   public:
    Watch(Watches& watches, std::string topic) : watches_(watches), topic_(std::move(topic)) {}

    const std::string& topic() const { return topic_; }

    // Sends it unless it is what the client knows; of several that wait, the last.
    void Update(Message state) {
      {
        absl::MutexLock lock(&mutex_);
        wanted_ = std::move(state);
      }
      Advance();
    }

    // The call ends with `status` once nothing is in flight.
    void End(const absl::Status& status) {
      {
        absl::MutexLock lock(&mutex_);
        if (!end_) end_ = status;
      }
      Advance();
    }

   private:
    enum class Next { kNothing, kWrite, kFinish };

    void OnWriteDone(bool ok) override {
      {
        absl::MutexLock lock(&mutex_);
        writing_ = false;
        if (!ok) wanted_.reset();
      }
      if (!ok) return End(absl::CancelledError());
      Advance();
    }
    void OnCancel() override { End(absl::CancelledError()); }
    void OnDone() override {
      watches_.Remove(this);
      delete this;
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

    // The client cannot be told the state; the end needs no memory.
    Next GiveUp(const absl::Status& status) {
      absl::MutexLock lock(&mutex_);
      wanted_.reset();
      if (!end_) end_ = status;
      return TakeNext();
    }

    Next TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      if (writing_ || finished_) return Next::kNothing;
      writing_ = TakeWanted();
      if (writing_) return Next::kWrite;
      if (!end_) return Next::kNothing;
      finished_ = true;
      status_ = *end_;
      return Next::kFinish;
    }

    // Whether there is something that the client does not know.
    bool TakeWanted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      if (!wanted_) return false;
      const bool known =
          told_ && google::protobuf::util::MessageDifferencer::Equals(*wanted_, message_);
      if (!known) {
        message_ = std::move(*wanted_);
        bytes_ = Serialize(message_);
      }
      wanted_.reset();
      told_ = true;
      return !known;
    }

    Watches& watches_;
    const std::string topic_;
    absl::Mutex mutex_;
    std::optional<Message> wanted_ ABSL_GUARDED_BY(mutex_);
    bool told_ ABSL_GUARDED_BY(mutex_) = false;  // message_ is what the client was told last
    bool writing_ ABSL_GUARDED_BY(mutex_) = false;
    bool finished_ ABSL_GUARDED_BY(mutex_) = false;
    std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
    // These belong to whoever set writing_ or finished_, until gRPC is done with them.
    absl::Status status_;
    Message message_;
    grpc::ByteBuffer bytes_;  // of message_
  };

  static absl::Status Stopping() {
    return CatchOutOfMemory([] { return absl::UnavailableError("the server is stopping"); });
  }

  void Remove(Watch* watch) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    open_.erase(watch);
  }

  const std::function<Message(const std::string& topic)> state_of_;
  absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<Watch*> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::server::calls
