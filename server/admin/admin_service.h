// latent.v1.Admin: where the server stands, what it holds, stopping it, and how much it logs.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/engine/engine.h"
#include "latent/v1/admin.grpc.pb.h"
#include "server/admin/operator_check.h"
#include "server/calls/watches.h"
#include "server/process/memory/client_memory.h"

namespace latentd::server::admin {

// Asks the process to stop as SIGTERM does, with this drain timeout (absent: the configured one).
using RequestStop = std::function<void(std::optional<absl::Duration> drain_timeout)>;

// Says what clients make the process hold now.
using AskClientMemory = std::function<std::vector<process::ClientBytes>()>;

// Its methods take bytes (request_parser.h).
using AdminServiceBase = latent::v1::Admin::WithRawCallbackMethod_GetServerStatus<
    latent::v1::Admin::WithRawCallbackMethod_WatchServerStatus<
        latent::v1::Admin::WithRawCallbackMethod_GetMemoryReport<
            latent::v1::Admin::WithRawCallbackMethod_Drain<
                latent::v1::Admin::WithRawCallbackMethod_SetLogLevel<
                    latent::v1::Admin::Service>>>>>;

// `engine` outlives the service, and the service the grpc::Server that it is registered with.
// Thread-safe.
class AdminService final : public AdminServiceBase {
 public:
  AdminService(engine::Engine& engine, std::string version, AskClientMemory client_memory,
               RequestStop request_stop, OperatorCheck check);

  // The engine's status has changed.
  void UpdateWatches() { watches_.Update(); }
  // As the server stops.
  void EndWatches() { watches_.End(); }

  grpc::ServerUnaryReactor* GetServerStatus(grpc::CallbackServerContext* context,
                                            const grpc::ByteBuffer* request,
                                            grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* WatchServerStatus(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) override;
  grpc::ServerUnaryReactor* GetMemoryReport(grpc::CallbackServerContext* context,
                                            const grpc::ByteBuffer* request,
                                            grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* SetLogLevel(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;

 private:
  latent::v1::ServerStatus Status() const;

  engine::Engine& engine_;
  const std::string version_;
  const AskClientMemory client_memory_;
  const RequestStop request_stop_;
  const OperatorCheck check_;
  calls::Watches<latent::v1::ServerStatus> watches_;
};

}  // namespace latentd::server::admin
