// latent.v1.Admin: where the server stands, what it holds, stopping it, and how much it logs.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "core/engine/engine.h"
#include "latent/v1/admin.grpc.pb.h"
#include "server/watches.h"

namespace latentd::server {

// Asks the process to stop as SIGTERM does, with this drain timeout (absent: the configured one).
using RequestStop = std::function<void(std::optional<absl::Duration> drain_timeout)>;

// `engine` outlives the service, and the service the grpc::Server that it is registered with.
// Thread-safe.
class AdminService final : public latent::v1::Admin::CallbackService {
 public:
  AdminService(engine::Engine& engine, std::string version, RequestStop request_stop);

  // The engine's status has changed.
  void UpdateWatches() { watches_.Update(); }
  // As the server stops.
  void EndWatches() { watches_.End(); }

  grpc::ServerUnaryReactor* GetServerStatus(grpc::CallbackServerContext* context,
                                            const latent::v1::GetServerStatusRequest* request,
                                            latent::v1::ServerStatus* response) override;
  grpc::ServerWriteReactor<latent::v1::ServerStatus>* WatchServerStatus(
      grpc::CallbackServerContext* context,
      const latent::v1::WatchServerStatusRequest* request) override;
  grpc::ServerUnaryReactor* GetMemoryReport(grpc::CallbackServerContext* context,
                                            const latent::v1::GetMemoryReportRequest* request,
                                            latent::v1::MemoryReport* response) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const latent::v1::DrainRequest* request,
                                  latent::v1::DrainResponse* response) override;
  grpc::ServerUnaryReactor* SetLogLevel(grpc::CallbackServerContext* context,
                                        const latent::v1::SetLogLevelRequest* request,
                                        latent::v1::SetLogLevelResponse* response) override;

 private:
  latent::v1::ServerStatus Status() const;

  engine::Engine& engine_;
  const std::string version_;
  const RequestStop request_stop_;
  Watches<latent::v1::ServerStatus> watches_;
};

}  // namespace latentd::server
