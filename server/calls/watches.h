// The open calls of a method that tells its clients a state at once and again whenever it changes,
// until the server stops. A client that reads slowly gets the newest state: each call holds one
// message that waits and one in flight. A call for whose message there is no memory ends with
// RESOURCE_EXHAUSTED.
#pragma once

#include <google/protobuf/util/message_differencer.h>

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
#include "core/base/errors/out_of_memory.h"
#include "server/calls/message_stream.h"
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
    if (ended_) started->End(stopping_);
    return started;
  }

  // The state may have changed.
  void Update() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    for (Watch* watch : open_) {
      const absl::Status told = CatchOutOfMemory([&] { watch->Update(state_of_(watch->topic())); });
      if (!told.ok()) watch->End(told);
    }
  }

  // Ends every call, and those to come, once it has been told the last state.
  void End() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    for (Watch* watch : open_) watch->End(stopping_);
  }

 private:
  // One call. Owns itself until gRPC is done with it.
  class Watch final : public MessageStream {
   public:
    Watch(Watches& watches, std::string topic) : watches_(watches), topic_(std::move(topic)) {}

    const std::string& topic() const { return topic_; }

    // Sends it unless it is what the client knows; of several that wait, the last.
    void Update(Message state) {
      {
        absl::MutexLock lock(&stream_mutex_);
        wanted_ = std::move(state);
      }
      SendNext();
    }

    using MessageStream::End;

   private:
    void OnWritten(bool ok) override {
      if (!ok) GiveUp(absl::CancelledError());
    }
    void OnCancel() override { End(absl::CancelledError()); }
    void OnDone() override {
      watches_.Remove(this);
      delete this;
    }

    bool TakeMessage(grpc::ByteBuffer& bytes) override
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(stream_mutex_) {
      if (!wanted_) return false;
      const bool known =
          told_ && google::protobuf::util::MessageDifferencer::Equals(*wanted_, last_);
      if (!known) {
        last_ = std::move(*wanted_);
        bytes = Serialize(last_);
      }
      wanted_.reset();
      told_ = true;
      return !known;
    }
    void GiveUp(const absl::Status& status) override {
      absl::MutexLock lock(&stream_mutex_);
      wanted_.reset();
      SetEnd(status);
    }

    Watches& watches_;
    const std::string topic_;
    std::optional<Message> wanted_ ABSL_GUARDED_BY(stream_mutex_);
    bool told_ ABSL_GUARDED_BY(stream_mutex_) = false;
    Message last_ ABSL_GUARDED_BY(stream_mutex_);  // the message that the client got last, if told_
  };

  void Remove(Watch* watch) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    open_.erase(watch);
  }

  const std::function<Message(const std::string& topic)> state_of_;
  const absl::Status stopping_ = absl::UnavailableError("the server is stopping");
  absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<Watch*> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::server::calls
