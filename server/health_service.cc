#include "server/health_service.h"

#include "server/health_watch.h"

namespace latentd::server {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

const grpc::Status& Stopping() {
  static const grpc::Status status(grpc::StatusCode::UNAVAILABLE, "the server is stopping");
  return status;
}

}  // namespace

HealthService::Status HealthService::StatusOf(const std::string& service) const {
  if (service == "liveness") return HealthCheckResponse::SERVING;
  if (service.empty() || service == "latent.v1.ImageGeneration") {
    return serving_ ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
  }
  return HealthCheckResponse::SERVICE_UNKNOWN;
}

void HealthService::SetServing(bool serving) {
  absl::MutexLock lock(&mutex_);
  serving_ = serving;
  for (HealthWatch* watch : watches_) watch->Update(StatusOf(watch->name()));
}

void HealthService::EndWatches() {
  absl::MutexLock lock(&mutex_);
  ended_ = true;
  for (HealthWatch* watch : watches_) watch->End(Stopping());
}

void HealthService::Remove(HealthWatch* watch) {
  absl::MutexLock lock(&mutex_);
  watches_.erase(watch);
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const HealthCheckRequest* request,
                                               HealthCheckResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::MutexLock lock(&mutex_);
  response->set_status(StatusOf(request->service()));
  const bool known = response->status() != HealthCheckResponse::SERVICE_UNKNOWN;
  reactor->Finish(known ? grpc::Status::OK
                        : grpc::Status(grpc::StatusCode::NOT_FOUND, "no service of that name"));
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(
    grpc::CallbackServerContext*, const HealthCheckRequest* request) {
  absl::MutexLock lock(&mutex_);
  const Status status = StatusOf(request->service());
  // A name that is not known can be long, and stays unknown.
  const bool known = status != HealthCheckResponse::SERVICE_UNKNOWN;
  auto* watch = new HealthWatch(*this, known ? request->service() : "unknown");
  watches_.insert(watch);
  watch->Update(status);
  if (ended_) watch->End(Stopping());
  return watch;
}

}  // namespace latentd::server
