#include "server/calls/unary_call.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/base/errors/out_of_memory.h"
#include "server/calls/client_of.h"
#include "server/calls/grpc_status.h"
#include "server/calls/received_bytes.h"
#include "server/calls/request_parser.h"
#include "server/calls/serialize.h"
#include "server/calls/unary_answer.h"

namespace latentd::server::calls {
namespace {

// For field tags, timings and names in the answer.
constexpr int64_t kFramingBytes = 16 << 10;

absl::Status AddAdvice(const absl::Status& refused, const UnaryMethod& method) {
  if (GetReason(refused) != "RESPONSE_TOO_LARGE") return refused;
  return WithFacts(WithReason(absl::InvalidArgumentError(
                                  absl::StrCat(refused.message(), ": ", method.if_too_large)),
                              "RESPONSE_TOO_LARGE"),
                   GetFacts(refused));
}

absl::Status ParseGenerate(const grpc::ByteBuffer& bytes, generation::ParsedRequest& parsed) {
  return ParseRequest(bytes, parsed.request);
}

absl::StatusOr<grpc::ByteBuffer> AnswerGenerate(latent::v1::GenerateResponse collected) {
  return Serialize(collected);
}

}  // namespace

const UnaryMethod kGenerate = {"Generate", ParseGenerate, AnswerGenerate,
                               "call GenerateStream, which sends them in parts"};

grpc::ServerUnaryReactor* UnaryCall::Start(const UnaryMethod& method,
                                           generation::CallEnvironment environment,
                                           grpc::CallbackServerContext& context,
                                           const grpc::ByteBuffer& request,
                                           grpc::ByteBuffer& response) {
  return StartOrRefuse(context, [&]() -> grpc::ServerUnaryReactor* {
    const absl::Status judged = CheckKey(environment, context);
    if (!judged.ok()) return FinishNow(context, judged);
    const auto call = std::make_shared<UnaryCall>(method, environment, context, response);
    const absl::Status entered = call->TryEnter();
    if (!entered.ok()) return FinishNow(context, entered);
    ReceivedBytes received(request, *method.parse);
    const absl::Status submitted = call->Submit(received);
    if (!submitted.ok()) {
      call->FinishWith(CatchOutOfMemory([&] { return AddAdvice(submitted, method); }));
    }
    return call.get();
  });
}

UnaryCall::UnaryCall(const UnaryMethod& method, generation::CallEnvironment environment,
                     grpc::CallbackServerContext& context, grpc::ByteBuffer& response)
    : Generation(environment, ClientOf(environment, context), method.name),
      method_(method),
      context_(context),
      response_(response) {}

int64_t UnaryCall::MaxPictureBytes(int64_t echo_bytes) const {
  return std::max<int64_t>(kMaxUnaryBytes - kFramingBytes - echo_bytes, 1);
}

void UnaryCall::Advance() {
  {
    absl::MutexLock lock(&mutex_);
    if (finished_ || !Collect()) return;
    end_ = *outbox_->end();
    if (end_.ok()) TakeAnswer();
    finished_ = true;
    collected_ = {};  // Clear would keep the pictures' memory
    StartWaiting();
  }
  Finish(FinalStatus(end_));
}

void UnaryCall::TakeAnswer() {
  absl::StatusOr<grpc::ByteBuffer> answer = method_.answer(std::move(collected_));
  end_ = answer.status();
  if (answer.ok()) response_ = *std::move(answer);
}

bool UnaryCall::Collect() {
  while (auto event = outbox_->Next()) Add(*std::move(event));
  return outbox_->end().has_value();
}

void UnaryCall::Add(generation::OutgoingEvent event) {
  latent::v1::GenerateEvent& message = event.message;
  collected_.set_request_id(message.request_id());
  if (message.has_completed())
    *collected_.mutable_completed() = std::move(*message.mutable_completed());
  if (!message.has_image_chunk()) return;
  const latent::v1::ImageChunk& chunk = message.image_chunk();
  if (chunk.offset() == 0) {
    latent::v1::Image& image = *collected_.add_images();
    image.set_index(chunk.index());
    image.set_seed(chunk.seed());
    *image.mutable_size() = chunk.size();
    image.set_mime_type(chunk.mime_type());
    image.mutable_data()->reserve(static_cast<size_t>(chunk.total_bytes()));
  }
  collected_.mutable_images()->rbegin()->mutable_data()->append(event.data.data(),
                                                                event.data.size());
}

void UnaryCall::FinishWith(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    finished_ = true;
  }
  end_ = status;
  Finish(FinalStatus(end_));
}

void UnaryCall::OnCancel() {
  AdvanceAfter([this] { ClientGone(); });
}

void UnaryCall::KeepUnread(const std::shared_ptr<const void>& token) { unread_.push_back(token); }

void UnaryCall::OnDone() {
  {
    absl::MutexLock lock(&mutex_);
    unread_.clear();
  }
  Done(end_);
}

}  // namespace latentd::server::calls
