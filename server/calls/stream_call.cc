#include "server/calls/stream_call.h"

#include <memory>

#include "core/base/status_macros.h"
#include "server/calls/refused_stream.h"
#include "server/calls/serialize.h"

namespace latentd::server::calls {

grpc::ServerWriteReactor<grpc::ByteBuffer>* StreamCall::Start(CallEnvironment environment,
                                                              grpc::CallbackServerContext& context,
                                                              const grpc::ByteBuffer& request) {
  return StartOrRefuseWrite([&]() -> absl::StatusOr<WriteReactor*> {
    const auto call = std::make_shared<StreamCall>(environment, context, "GenerateStream");
    RETURN_IF_ERROR(call->TryEnter());
    const absl::Status submitted = call->Submit(request);
    if (!submitted.ok()) call->End(submitted);
    return call.get();
  });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* StreamCall::Resume(CallEnvironment environment,
                                                               grpc::CallbackServerContext& context,
                                                               const grpc::ByteBuffer& request) {
  return StartOrRefuseWrite([&]() -> absl::StatusOr<WriteReactor*> {
    const auto call = std::make_shared<StreamCall>(environment, context, kResumeMethod);
    RETURN_IF_ERROR(call->TryEnter());
    const absl::Status resumed = call->GenerateCall::Resume(request);
    if (!resumed.ok()) call->End(resumed);
    return call.get();
  });
}

StreamCall::StreamCall(CallEnvironment environment, grpc::CallbackServerContext& context,
                       absl::string_view method)
    : GenerateCall(environment, context, method) {}

bool StreamCall::TakeMessage(grpc::ByteBuffer& bytes) {
  absl::MutexLock lock(&mutex_);
  if (!outbox_) return false;
  if (const auto event = NextEvent()) {
    bytes = Serialize(*event);
    StartWaiting();
    return true;
  }
  if (const auto end = outbox_->end()) SetEnd(*end);
  return false;
}

void StreamCall::OnWritten(bool ok) {
  if (!ok) ClientGone();
  StopWaiting();
}

void StreamCall::OnCancel() {
  AdvanceAfter([this] { ClientGone(); });
}

void StreamCall::OnDone() { Done(end()); }

}  // namespace latentd::server::calls
