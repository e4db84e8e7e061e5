#include "server/admin/health_service.h"

#include "core/base/errors/status_macros.h"
#include "server/calls/refused_stream.h"
#include "server/calls/request_parser.h"
#include "server/calls/unary_answer.h"

namespace latentd::server::admin {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

HealthService::HealthService(const process::Health& health, bool has_admin)
    : health_(health),
      has_admin_(has_admin),
      watches_([this](const std::string& service) { return StatusOf(service); }) {}

HealthCheckResponse HealthService::StatusOf(const std::string& service) const {
  HealthCheckResponse response;
  response.set_status(HealthCheckResponse::SERVICE_UNKNOWN);
  const auto set = [&](bool good) {
    response.set_status(good ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING);
  };
  if (service.empty() || service == "latent.v1.ImageGeneration" ||
      service == "latent.v1.VideoGeneration") {
    set(health_.ready());
  } else if (service == "liveness") {
    set(health_.alive());
  } else if (has_admin_ && (service == "latent.v1.GraphCache" || service == "latent.v1.Admin" ||
                            service == "latent.v1.Models" || service == "latent.v1.Adapters")) {
    set(true);
  }
  return response;
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const grpc::ByteBuffer* request,
                                               grpc::ByteBuffer* response) {
  return calls::AnswerNow<HealthCheckRequest, HealthCheckResponse,
                          calls::ReadForeignRequest<HealthCheckRequest>>(
      *context, *request, *response,
      [this](const HealthCheckRequest& check, HealthCheckResponse& health) {
        health = StatusOf(check.service());
        const bool known = health.status() != HealthCheckResponse::SERVICE_UNKNOWN;
        return known ? absl::OkStatus() : absl::NotFoundError("no service of that name");
      });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* HealthService::Watch(grpc::CallbackServerContext*,
                                                                 const grpc::ByteBuffer* bytes) {
  return calls::StartOrRefuseWrite([&]() -> absl::StatusOr<calls::WriteReactor*> {
    ASSIGN_OR_RETURN(const auto request, calls::ReadForeignRequest<HealthCheckRequest>(*bytes));
    // A name that is not known can be long, and stays unknown.
    const bool known = StatusOf(request.service()).status() != HealthCheckResponse::SERVICE_UNKNOWN;
    return watches_.Start(known ? request.service() : "unknown");
  });
}

}  // namespace latentd::server::admin
