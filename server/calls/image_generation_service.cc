#include "server/calls/image_generation_service.h"

#include <utility>

#include "core/base/errors/status_macros.h"
#include "core/engine/api/serving.h"
#include "server/calls/client_of.h"
#include "server/calls/encode_method.h"
#include "server/calls/stream_call.h"
#include "server/calls/unary_answer.h"
#include "server/calls/unary_call.h"
#include "server/generation/conversion/request_form.h"
#include "server/generation/conversion/response_conversion.h"
#include "server/generation/kept_streams.h"

namespace latentd::server::calls {

namespace v1 = ::latent::v1;

ImageGenerationService::ImageGenerationService(generation::CallEnvironment environment,
                                               std::string version)
    : environment_(environment), version_(std::move(version)) {}

grpc::ServerUnaryReactor* ImageGenerationService::Generate(grpc::CallbackServerContext* context,
                                                           const grpc::ByteBuffer* request,
                                                           grpc::ByteBuffer* response) {
  return UnaryCall::Start(kGenerate, environment_, *context, *request, *response);
}

grpc::ServerUnaryReactor* ImageGenerationService::Encode(grpc::CallbackServerContext* context,
                                                         const grpc::ByteBuffer* request,
                                                         grpc::ByteBuffer* response) {
  return UnaryCall::Start(kEncode, environment_, *context, *request, *response);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ImageGenerationService::GenerateStream(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  return StreamCall::Start(kGenerateStream, environment_, *context, *request);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ImageGenerationService::ResumeStream(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  return StreamCall::Resume(kResumeStream, environment_, *context, *request);
}

grpc::ServerUnaryReactor* ImageGenerationService::CancelGeneration(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return AnswerNow<v1::CancelGenerationRequest, v1::CancelGenerationResponse>(
      *context, *request, *response,
      [&](const v1::CancelGenerationRequest& cancel, v1::CancelGenerationResponse&) {
        RETURN_IF_ERROR(CheckKey(environment_, *context));
        RETURN_IF_ERROR(generation::CheckForm(cancel));
        return environment_.kept.Cancel(CallerOf(environment_, *context), cancel.request_id());
      });
}

grpc::ServerUnaryReactor* ImageGenerationService::GetCapabilities(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return AnswerNow<v1::GetCapabilitiesRequest, v1::GetCapabilitiesResponse>(
      *context, *request, *response,
      [&](const v1::GetCapabilitiesRequest&, v1::GetCapabilitiesResponse& capabilities) {
        RETURN_IF_ERROR(CheckKey(environment_, *context));
        RETURN_IF_ERROR(engine::CheckServing(environment_.engine.status()));
        capabilities = generation::ToProto(environment_.engine.capabilities(),
                                           CallerOf(environment_, *context));
        capabilities.set_version(version_);
        return absl::OkStatus();
      });
}

}  // namespace latentd::server::calls
