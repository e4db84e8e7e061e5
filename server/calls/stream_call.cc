#include "server/calls/stream_call.h"

#include <memory>

#include "server/calls/grpc_status.h"
#include "server/calls/refused_stream.h"
#include "server/calls/serialize.h"

namespace latentd::server::calls {

grpc::ServerWriteReactor<grpc::ByteBuffer>* StreamCall::Start(CallEnvironment environment,
                                                              grpc::CallbackServerContext& context,
                                                              const grpc::ByteBuffer& request) {
  return StartOrRefuseWrite([&]() -> absl::StatusOr<WriteReactor*> {
    const auto call = std::make_shared<StreamCall>(environment, context);
    const absl::Status submitted = call->Submit(request);
    if (!submitted.ok()) call->FinishWith(submitted);
    return call.get();
  });
}

StreamCall::StreamCall(CallEnvironment environment, grpc::CallbackServerContext& context)
    : GenerateCall(environment, context, "GenerateStream") {}

void StreamCall::Advance() {
  Next next;
  {
    absl::MutexLock lock(&mutex_);
    next = TakeNext();
  }
  if (next == Next::kWrite) StartWrite(&message_);
  if (next == Next::kFinish) Finish(FinalStatus(end_));
}

StreamCall::Next StreamCall::TakeNext() {
  if (writing_ || finished_) return Next::kNothing;
  if (const auto event = outbox_->Next()) {
    message_ = Serialize(*event);
    writing_ = true;
    StartSending();
    return Next::kWrite;
  }
  const std::optional<absl::Status> end = outbox_->end();
  if (!end) return Next::kNothing;
  finished_ = true;
  end_ = *end;
  return Next::kFinish;
}

void StreamCall::FinishWith(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    finished_ = true;
  }
  end_ = status;
  Finish(FinalStatus(end_));
}

void StreamCall::OnWriteDone(bool ok) {
  if (!ok) ClientGone();
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    StopSending();
  }
  AdvanceOrFail();
}

void StreamCall::OnCancel() {
  ClientGone();
  AdvanceOrFail();
}

void StreamCall::OnDone() { Done(end_); }

}  // namespace latentd::server::calls
