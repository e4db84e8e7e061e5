// grpc.health.v1.Health. gRPC's own says SERVING for everything from the first moment; this one
// says what is true:
//
//   ""                          whether pictures can be asked for
//   latent.v1.ImageGeneration   the same
//   latent.v1.GraphCache        SERVING, where the server listens for operators at all
//   latent.v1.Admin             the same
//   liveness                    SERVING from the start to the end, loading and draining included;
//                               NOT_SERVING while a unit of work hangs (SetAlive)
//
// Another name is NOT_FOUND for Check and SERVICE_UNKNOWN for Watch, as health.proto says.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/calls/watches.h"

namespace latentd::server::admin {

// Its methods take bytes (request_parser.h).
using HealthServiceBase = grpc::health::v1::Health::WithRawCallbackMethod_Check<
    grpc::health::v1::Health::WithRawCallbackMethod_Watch<grpc::health::v1::Health::Service>>;

// Thread-safe. Must outlive the grpc::Server that it is registered with.
class HealthService final : public HealthServiceBase {
 public:
  // `has_admin`: whether the server listens for operators.
  explicit HealthService(bool has_admin);

  // NOT_SERVING until told otherwise.
  void SetServing(bool serving);

  // SERVING until told otherwise.
  void SetAlive(bool alive);

  // Ends every Watch, as the server stops.
  void EndWatches() { watches_.End(); }

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Watch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request) override;

 private:
  grpc::health::v1::HealthCheckResponse StatusOf(const std::string& service) const;

  const bool has_admin_;
  std::atomic<bool> serving_ = false;
  std::atomic<bool> alive_ = true;
  calls::Watches<grpc::health::v1::HealthCheckResponse> watches_;
};

}  // namespace latentd::server::admin
