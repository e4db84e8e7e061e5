// The reactor of every stream of messages to a client: one write in flight, and the end once all
// has been taken. A derived class chooses the next message: events in an outbox
// (StreamCall), messages in a queue (QueuedStream), the newest state (Watches).
//
// A message that there is no memory for ends the call: GiveUp leaves nothing to send but the end,
// which needs none.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace latentd::server::calls {

// Thread-safe. Owned by the derived class, until gRPC calls OnDone.
class MessageStream : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 protected:
  // Sends what can be sent now, or ends the call. To be called without locks whenever there may be
  // something new. Throws only what gRPC does.
  void SendNext() ABSL_LOCKS_EXCLUDED(stream_mutex_);

  // The call ends with `status` once there is no message to take, or with the first error if there
  // are several. Every call has to be ended.
  void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(stream_mutex_);
  // Likewise, at the next SendNext.
  void SetEnd(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(stream_mutex_);
  bool has_end() const ABSL_SHARED_LOCKS_REQUIRED(stream_mutex_) { return end_.has_value(); }

  // How the call has ended. REQUIRES: it has.
  absl::Status end() const ABSL_LOCKS_EXCLUDED(stream_mutex_);

  // Guards what is to be sent, too, of derived classes.
  mutable absl::Mutex stream_mutex_;

 private:
  enum class Next { kNothing, kWrite, kFinish };

  // True if there was a message to send, which is in `bytes` now. May throw std::bad_alloc; may
  // SetEnd where there is none.
  virtual bool TakeMessage(grpc::ByteBuffer& bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(stream_mutex_) = 0;

  // There is no memory for the next message: drops what waits and sets the end to `status`. Asks
  // for none. Called without the lock.
  virtual void GiveUp(const absl::Status& status) = 0;

  // The client has taken the message, or, not `ok`, will take none any more. Nothing is sent before
  // it returns. Called without the lock.
  virtual void OnWritten(bool ok) = 0;

  void OnWriteDone(bool ok) final;
  absl::Status TakeNext(Next& next) ABSL_LOCKS_EXCLUDED(stream_mutex_);
  Next LockedNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(stream_mutex_);

  bool writing_ ABSL_GUARDED_BY(stream_mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(stream_mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(stream_mutex_);
  // Belongs to the thread that set writing_, until gRPC is done with it.
  grpc::ByteBuffer bytes_;
};

}  // namespace latentd::server::calls
