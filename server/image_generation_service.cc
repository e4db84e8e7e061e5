#include "server/image_generation_service.h"

#include <utility>

#include "server/grpc_status.h"
#include "server/response_conversion.h"
#include "server/serving_state.h"
#include "server/stream_call.h"
#include "server/unary_call.h"

namespace latentd::server {

ImageGenerationService::ImageGenerationService(CallEnvironment environment, std::string version)
    : environment_(environment), version_(std::move(version)) {}

grpc::ServerUnaryReactor* ImageGenerationService::Generate(grpc::CallbackServerContext* context,
                                                           const grpc::ByteBuffer* request,
                                                           grpc::ByteBuffer* response) {
  return UnaryCall::Start(environment_, *context, *request, *response);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ImageGenerationService::GenerateStream(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  return StreamCall::Start(environment_, *context, *request);
}

grpc::ServerUnaryReactor* ImageGenerationService::GetCapabilities(
    grpc::CallbackServerContext* context, const latent::v1::GetCapabilitiesRequest*,
    latent::v1::GetCapabilitiesResponse* response) {
  const absl::Status serving = CheckServing(environment_.engine.state());
  if (serving.ok()) {
    *response = ToProto(environment_.engine.capabilities());
    response->set_version(version_);
  }
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(serving));
  return reactor;
}

}  // namespace latentd::server
