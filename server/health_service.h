// grpc.health.v1.Health. gRPC's own says SERVING for everything from the first moment; this one
// says what is true:
//
//   ""                          whether pictures can be asked for
//   latent.v1.ImageGeneration   the same
//   liveness                    SERVING from the start to the end, loading and draining included
//
// Another name is NOT_FOUND for Check and SERVICE_UNKNOWN for Watch, as health.proto says.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace latentd::server {

class HealthWatch;

// Thread-safe. Must outlive the grpc::Server that it is registered with.
class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  // NOT_SERVING until told otherwise.
  void SetServing(bool serving);

  // Ends every Watch, as the server stops.
  void EndWatches();

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request,
                                  grpc::health::v1::HealthCheckResponse* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request) override;

 private:
  friend class HealthWatch;
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;

  Status StatusOf(const std::string& service) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void Remove(HealthWatch* watch);

  mutable absl::Mutex mutex_;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<HealthWatch*> watches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::server
