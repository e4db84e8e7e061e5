#include "server/calls/stream_call.h"

#include <memory>

#include "core/base/errors/status_macros.h"
#include "server/calls/client_of.h"
#include "server/calls/event_bytes.h"
#include "server/calls/received_bytes.h"
#include "server/calls/refused_stream.h"
#include "server/calls/request_parser.h"
#include "server/generation/conversion/request_form.h"

namespace latentd::server::calls {
namespace {

absl::Status ReadGenerate(const grpc::ByteBuffer& bytes, generation::ParsedRequest& parsed) {
  return ParseRequest(bytes, parsed.request);
}

absl::Status ReadResume(const grpc::ByteBuffer& bytes, generation::Resumption& asked) {
  ASSIGN_OR_RETURN(const auto request, ReadRequest<latent::v1::ResumeStreamRequest>(bytes));
  asked = {request.request_id(), request.received_images(), request.received_bytes()};
  return generation::CheckForm(request);
}

}  // namespace

const StreamMethod kGenerateStream = {"GenerateStream", generation::Results::kPictures,
                                      ReadGenerate, Serialize};
const StreamMethod kResumeStream = {generation::kResumeMethod, generation::Results::kPictures,
                                    nullptr, Serialize, ReadResume};

grpc::ServerWriteReactor<grpc::ByteBuffer>* StreamCall::Start(
    const StreamMethod& method, generation::CallEnvironment environment,
    grpc::CallbackServerContext& context, const grpc::ByteBuffer& request) {
  return StartOrRefuseWrite([&]() -> absl::StatusOr<WriteReactor*> {
    RETURN_IF_ERROR(CheckKey(environment, context));
    const auto call = std::make_shared<StreamCall>(method, environment, context);
    RETURN_IF_ERROR(call->TryEnter());
    ReceivedBytes received(request, *method.parse);
    const absl::Status submitted = call->Submit(received);
    if (!submitted.ok()) call->End(submitted);
    return call.get();
  });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* StreamCall::Resume(
    const StreamMethod& method, generation::CallEnvironment environment,
    grpc::CallbackServerContext& context, const grpc::ByteBuffer& request) {
  return StartOrRefuseWrite([&]() -> absl::StatusOr<WriteReactor*> {
    RETURN_IF_ERROR(CheckKey(environment, context));
    const auto call = std::make_shared<StreamCall>(method, environment, context);
    RETURN_IF_ERROR(call->TryEnter());
    const absl::Status resumed = call->Generation::Resume(
        [&](generation::Resumption& asked) { return method.read_resume(request, asked); });
    if (!resumed.ok()) call->End(resumed);
    return call.get();
  });
}

StreamCall::StreamCall(const StreamMethod& method, generation::CallEnvironment environment,
                       grpc::CallbackServerContext& context)
    : Generation(environment, ClientOf(environment, context), method.name, method.results),
      method_(method),
      context_(context) {}

bool StreamCall::TakeMessage(grpc::ByteBuffer& bytes) {
  absl::MutexLock lock(&mutex_);
  if (!outbox_) return false;
  if (const auto event = NextEvent()) {
    bytes = method_.serialize(*event);
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
