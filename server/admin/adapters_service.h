// latent.v1.Adapters: what lies below --adapters, and reading, evicting and pinning it. Its calls
// run on a worker of its own, so that listing waits for no adapter that is being read.
#pragma once

#include <grpcpp/support/server_callback.h>

#include "core/engine/engine.h"
#include "latent/v1/adapters.grpc.pb.h"
#include "server/admin/admin_worker.h"

namespace latentd::server::admin {

// Its methods take bytes (request_parser.h).
using AdaptersServiceBase = latent::v1::Adapters::WithRawCallbackMethod_ListAdapters<
    latent::v1::Adapters::WithRawCallbackMethod_LoadAdapter<
        latent::v1::Adapters::WithRawCallbackMethod_EvictAdapter<
            latent::v1::Adapters::WithRawCallbackMethod_PinAdapter<
                latent::v1::Adapters::Service>>>>;

// `engine` outlives the service, and the service the grpc::Server that it is registered with.
// Thread-safe.
class AdaptersService final : public AdaptersServiceBase {
 public:
  AdaptersService(engine::Engine& engine, const OperatorCheck& check)
      : engine_(engine), listing_("adapters-list", check), changing_("adapters-change", check) {}

  grpc::ServerUnaryReactor* ListAdapters(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* LoadAdapter(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* EvictAdapter(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* PinAdapter(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;

 private:
  // Does something to the adapter that the request names, and answers with how it stands then.
  template <typename Request, typename Act>
  grpc::ServerUnaryReactor* Change(const char* method, grpc::CallbackServerContext& context,
                                   const grpc::ByteBuffer& bytes, grpc::ByteBuffer& response,
                                   Act act);

  engine::Engine& engine_;
  AdminWorker listing_;
  AdminWorker changing_;
};

}  // namespace latentd::server::admin
