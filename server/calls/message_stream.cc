#include "server/calls/message_stream.h"

#include "core/base/errors/out_of_memory.h"
#include "server/calls/grpc_status.h"

namespace latentd::server::calls {

void MessageStream::SendNext() {
  Next next = Next::kNothing;
  for (absl::Status taken = TakeNext(next); !taken.ok(); taken = TakeNext(next)) GiveUp(taken);
  if (next == Next::kWrite) StartWrite(&bytes_);
  if (next == Next::kFinish) Finish(FinalStatus(end()));
}

absl::Status MessageStream::TakeNext(Next& next) {
  return CatchOutOfMemory([&] {
    absl::MutexLock lock(&stream_mutex_);
    next = LockedNext();
  });
}

MessageStream::Next MessageStream::LockedNext() {
  if (writing_ || finished_) return Next::kNothing;
  writing_ = TakeMessage(bytes_);
  if (writing_) return Next::kWrite;
  finished_ = end_.has_value();
  return finished_ ? Next::kFinish : Next::kNothing;
}

void MessageStream::End(const absl::Status& status) {
  {
    absl::MutexLock lock(&stream_mutex_);
    SetEnd(status);
  }
  SendNext();
}

void MessageStream::SetEnd(const absl::Status& status) {
  if (!finished_ && (!end_ || end_->ok())) end_ = status;
}

absl::Status MessageStream::end() const {
  absl::MutexLock lock(&stream_mutex_);
  return *end_;
}

void MessageStream::OnWriteDone(bool ok) {
  bytes_.Clear();  // they may be a picture's
  OnWritten(ok);
  {
    absl::MutexLock lock(&stream_mutex_);
    writing_ = false;
  }
  SendNext();
}

}  // namespace latentd::server::calls
