#include "server/health_service.h"

namespace latentd::server {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

HealthService::HealthService(bool has_admin)
    : has_admin_(has_admin),
      watches_([this](const std::string& service) { return StatusOf(service); }) {}

HealthCheckResponse HealthService::StatusOf(const std::string& service) const {
  HealthCheckResponse response;
  response.set_status(HealthCheckResponse::SERVICE_UNKNOWN);
  if (service.empty() || service == "latent.v1.ImageGeneration") {
    response.set_status(serving_ ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING);
  } else if (service == "liveness" ||
             (has_admin_ && (service == "latent.v1.GraphCache" || service == "latent.v1.Admin"))) {
    response.set_status(HealthCheckResponse::SERVING);
  }
  return response;
}

void HealthService::SetServing(bool serving) {
  serving_ = serving;
  watches_.Update();
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const HealthCheckRequest* request,
                                               HealthCheckResponse* response) {
  *response = StatusOf(request->service());
  const bool known = response->status() != HealthCheckResponse::SERVICE_UNKNOWN;
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(known ? grpc::Status::OK
                        : grpc::Status(grpc::StatusCode::NOT_FOUND, "no service of that name"));
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(
    grpc::CallbackServerContext*, const HealthCheckRequest* request) {
  // A name that is not known can be long, and stays unknown.
  const bool known = StatusOf(request->service()).status() != HealthCheckResponse::SERVICE_UNKNOWN;
  return watches_.Start(known ? request->service() : "unknown");
}

}  // namespace latentd::server
