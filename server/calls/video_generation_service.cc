#include "server/calls/video_generation_service.h"

#include <utility>

#include "core/base/errors/status_macros.h"
#include "core/engine/api/serving.h"
#include "server/calls/client_of.h"
#include "server/calls/stream_call.h"
#include "server/calls/unary_answer.h"
#include "server/calls/video_method.h"
#include "server/generation/conversion/request_form.h"
#include "server/generation/conversion/video_conversion.h"
#include "server/generation/kept_streams.h"

namespace latentd::server::calls {

namespace v1 = ::latent::v1;

VideoGenerationService::VideoGenerationService(generation::CallEnvironment environment,
                                               std::string version)
    : environment_(environment), version_(std::move(version)) {}

grpc::ServerWriteReactor<grpc::ByteBuffer>* VideoGenerationService::GenerateVideo(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  return StreamCall::Start(kGenerateVideo, environment_, *context, *request);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* VideoGenerationService::ResumeVideo(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  return StreamCall::Resume(kResumeVideo, environment_, *context, *request);
}

grpc::ServerUnaryReactor* VideoGenerationService::CancelVideo(grpc::CallbackServerContext* context,
                                                              const grpc::ByteBuffer* request,
                                                              grpc::ByteBuffer* response) {
  return AnswerNow<v1::CancelGenerationRequest, v1::CancelGenerationResponse>(
      *context, *request, *response,
      [&](const v1::CancelGenerationRequest& cancel, v1::CancelGenerationResponse&) {
        RETURN_IF_ERROR(CheckKey(environment_, *context));
        RETURN_IF_ERROR(generation::CheckForm(cancel));
        return environment_.kept.Cancel(CallerOf(environment_, *context), cancel.request_id(),
                                        generation::Results::kVideos);
      });
}

grpc::ServerUnaryReactor* VideoGenerationService::GetVideoCapabilities(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return AnswerNow<v1::GetVideoCapabilitiesRequest, v1::GetVideoCapabilitiesResponse>(
      *context, *request, *response,
      [&](const v1::GetVideoCapabilitiesRequest&, v1::GetVideoCapabilitiesResponse& capabilities) {
        RETURN_IF_ERROR(CheckKey(environment_, *context));
        RETURN_IF_ERROR(engine::CheckServing(environment_.engine.status()));
        capabilities = generation::ToVideoProto(environment_.engine.capabilities(),
                                                CallerOf(environment_, *context));
        capabilities.set_version(version_);
        return absl::OkStatus();
      });
}

}  // namespace latentd::server::calls
