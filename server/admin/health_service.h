// grpc.health.v1.Health. gRPC's own says SERVING for everything from the first moment; this one
// says what is true:
//
//   ""                          SERVING while pictures can be asked for (process/health.h: ready)
//   latent.v1.ImageGeneration   the same
//   latent.v1.VideoGeneration   the same: videos, where there is a model that draws them
//   latent.v1.GraphCache        SERVING, where the server listens for operators at all
//   latent.v1.Admin             the same
//   latent.v1.Models            the same
//   latent.v1.Adapters          the same
//   liveness                    SERVING while the process works (process/health.h: alive)
//
// Another name is NOT_FOUND for Check and SERVICE_UNKNOWN for Watch, as health.proto says.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <string>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/calls/watches.h"
#include "server/process/lifetime/health.h"

namespace latentd::server::admin {

// Its methods take bytes (request_parser.h).
using HealthServiceBase = grpc::health::v1::Health::WithRawCallbackMethod_Check<
    grpc::health::v1::Health::WithRawCallbackMethod_Watch<grpc::health::v1::Health::Service>>;

// Thread-safe. Must outlive the grpc::Server that it is registered with.
class HealthService final : public HealthServiceBase {
 public:
  // `health` must outlive this; `has_admin`: whether the server listens for operators.
  HealthService(const process::Health& health, bool has_admin);

  // Tells every Watch what has changed in `health`: to be called after each change.
  void UpdateWatches() { watches_.Update(); }

  // Ends every Watch, as the server stops.
  void EndWatches() { watches_.End(); }

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Watch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request) override;

 private:
  grpc::health::v1::HealthCheckResponse StatusOf(const std::string& service) const;

  const process::Health& health_;
  const bool has_admin_;
  calls::Watches<grpc::health::v1::HealthCheckResponse> watches_;
};

}  // namespace latentd::server::admin
