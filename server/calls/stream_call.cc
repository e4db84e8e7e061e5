#include "server/calls/stream_call.h"

#include <memory>

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

bool StreamCall::TakeMessage(grpc::ByteBuffer& bytes) {
  absl::MutexLock lock(&mutex_);
  const auto event = outbox_->Next();
  if (!event) return false;
  bytes = Serialize(*event);
  StartSending();
  return true;
}

std::optional<absl::Status> StreamCall::TakeEnd() {
  absl::MutexLock lock(&mutex_);
  return outbox_->end();
}

void StreamCall::OnWritten(bool ok) {
  if (!ok) ClientGone();
  absl::MutexLock lock(&mutex_);
  StopSending();
}

void StreamCall::OnCancel() {
  ClientGone();
  AdvanceOrFail();
}

void StreamCall::OnDone() { Done(end()); }

}  // namespace latentd::server::calls
