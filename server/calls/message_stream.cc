#include "server/calls/message_stream.h"

#include "core/base/out_of_memory.h"
#include "server/calls/grpc_status.h"

namespace latentd::server::calls {

void MessageStream::SendNext() {
  Next next = Next::kNothing;
  for (absl::Status taken = TakeNext(next); !taken.ok(); taken = TakeNext(next)) GiveUp(taken);
  if (next == Next::kWrite) StartWrite(&bytes_);
  if (next == Next::kFinish) Finish(FinalStatus(end_));
}

absl::Status MessageStream::TakeNext(Next& next) {
  return CatchOutOfMemory([&] {
    absl::MutexLock lock(&stream_mutex_);
    next = LockedNext();
    return absl::OkStatus();
  });
}

MessageStream::Next MessageStream::LockedNext() {
  if (writing_ || finished_) return Next::kNothing;
  writing_ = TakeMessage(bytes_);
  if (writing_) return Next::kWrite;
  const std::optional<absl::Status> end = TakeEnd();
  if (!end) return Next::kNothing;
  finished_ = true;
  end_ = *end;
  return Next::kFinish;
}

void MessageStream::FinishWith(const absl::Status& status) {
  {
    absl::MutexLock lock(&stream_mutex_);
    finished_ = true;
  }
  end_ = status;
  Finish(FinalStatus(end_));
}

void MessageStream::OnWriteDone(bool ok) {
  OnWritten(ok);
  {
    absl::MutexLock lock(&stream_mutex_);
    writing_ = false;
  }
  const absl::Status sent = CatchOutOfMemory([&] {
    SendNext();
    return absl::OkStatus();
  });
  if (!sent.ok()) GiveUp(sent);
}

}  // namespace latentd::server::calls
