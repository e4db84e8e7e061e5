// latent.v1.Models: which models are on a device, and loading, evicting and pinning them. Its calls
// run on a worker of its own, so that listing waits for no model that is being loaded.
#pragma once

#include <grpcpp/support/server_callback.h>

#include "core/engine/engine.h"
#include "latent/v1/models.grpc.pb.h"
#include "server/admin/admin_worker.h"

namespace latentd::server::admin {

// Its methods take bytes (request_parser.h).
using ModelsServiceBase = latent::v1::Models::WithRawCallbackMethod_ListModels<
    latent::v1::Models::WithRawCallbackMethod_LoadModel<
        latent::v1::Models::WithRawCallbackMethod_EvictModel<
            latent::v1::Models::WithRawCallbackMethod_PinModel<latent::v1::Models::Service>>>>;

// `engine` outlives the service, and the service the grpc::Server that it is registered with.
// Thread-safe.
class ModelsService final : public ModelsServiceBase {
 public:
  ModelsService(engine::Engine& engine, const OperatorCheck& check)
      : engine_(engine), listing_("models-list", check), changing_("models-change", check) {}

  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* LoadModel(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* EvictModel(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* PinModel(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;

 private:
  // Does something to the model that the request names, and answers with how it stands then.
  template <typename Request, typename Act>
  grpc::ServerUnaryReactor* Change(const char* method, grpc::CallbackServerContext& context,
                                   const grpc::ByteBuffer& bytes, grpc::ByteBuffer& response,
                                   Act act);

  engine::Engine& engine_;
  AdminWorker listing_;
  AdminWorker changing_;
};

}  // namespace latentd::server::admin
