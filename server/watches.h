// The open calls of a method that tells its clients a state at once and again whenever it changes,
// until the server stops. A client that reads slowly gets the newest state: each call holds one
// message that waits and one in flight.
#pragma once

#include <google/protobuf/util/message_differencer.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/serialize.h"

namespace latentd::server {

// Thread-safe. Must outlive the grpc::Server whose calls it has.
template <typename Message>
class Watches {
 public:
  // `state_of` says what clients of a topic are told; it may be called from any thread.
  explicit Watches(std::function<Message(const std::string& topic)> state_of)
      : state_of_(std::move(state_of)) {}

  // The reactor of a new call.
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(std::string topic) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    auto* watch = new Watch(*this, std::move(topic));
    open_.insert(watch);
    watch->Update(state_of_(watch->topic()));
    if (ended_) watch->End(Stopping());
    return watch;
  }

  // The state may have changed.
  void Update() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    for (Watch* watch : open_) watch->Update(state_of_(watch->topic()));
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
    void End(const grpc::Status& status) {
      {
        absl::MutexLock lock(&mutex_);
        if (!end_) end_ = status;
      }
      Advance();
    }

   private:
    void OnWriteDone(bool ok) override {
      {
        absl::MutexLock lock(&mutex_);
        writing_ = false;
        if (!ok) wanted_.reset();
      }
      if (!ok) return End(grpc::Status::CANCELLED);
      Advance();
    }
    void OnCancel() override { End(grpc::Status::CANCELLED); }
    void OnDone() override {
      watches_.Remove(this);
      delete this;
    }

    void Advance() {
      bool write = false;
      {
        absl::MutexLock lock(&mutex_);
        if (writing_ || finished_) return;
        write = TakeWanted();
        writing_ = write;
        finished_ = !write && end_.has_value();
        if (!write && !finished_) return;
      }
      if (write) {
        StartWrite(&bytes_);
      } else {
        Finish(*end_);
      }
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
    // These belong to whoever set writing_ or finished_, until gRPC is done with them.
    std::optional<grpc::Status> end_;
    Message message_;
    grpc::ByteBuffer bytes_;  // of message_
  };

  static grpc::Status Stopping() {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server is stopping");
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

}  // namespace latentd::server
