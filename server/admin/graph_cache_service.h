// latent.v1.GraphCache: a shell around engine::GraphAdmin. Calls that wait for the engine (warming,
// loading), for files, or only read these (listing) run on a worker each, so that
// a cache can be saved and listed while a bucket is warming. None of it runs on gRPC's threads.
#pragma once

#include <grpcpp/support/server_callback.h>

#include "latent/v1/graph_cache.grpc.pb.h"
#include "server/admin/admin_worker.h"
#include "server/admin/graph_bytes_reader.h"
#include "server/admin/tickets.h"
#include "server/generation/active_calls.h"

namespace latentd::server::admin {

// Its methods take bytes (request_parser.h).
using GraphCacheServiceBase = latent::v1::GraphCache::WithRawCallbackMethod_ListGraphs<
    latent::v1::GraphCache::WithRawCallbackMethod_GetGraph<
        latent::v1::GraphCache::WithRawCallbackMethod_WarmBuckets<
            latent::v1::GraphCache::WithRawCallbackMethod_SaveGraphs<
                latent::v1::GraphCache::WithRawCallbackMethod_LoadGraphs<
                    latent::v1::GraphCache::WithRawCallbackMethod_VerifyGraphs<
                        latent::v1::GraphCache::WithRawCallbackMethod_EvictGraphs<
                            latent::v1::GraphCache::WithRawCallbackMethod_PinGraphs<
                                latent::v1::GraphCache::WithRawCallbackMethod_ExportGraphs<
                                    latent::v1::GraphCache::WithRawCallbackMethod_ImportGraphs<
                                        latent::v1::GraphCache::Service>>>>>>>>>>;

// Referents of `environment` outlive the service, and the service the grpc::Server that it is
// registered with. Thread-safe.
class GraphCacheService final : public GraphCacheServiceBase {
 public:
  struct Imports {
    bool allowed = false;
    ImportLimits limits;
  };

  GraphCacheService(generation::CallEnvironment environment, Imports imports, OperatorCheck check);

  grpc::ServerUnaryReactor* ListGraphs(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetGraph(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* WarmBuckets(grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer* request) override;
  grpc::ServerUnaryReactor* SaveGraphs(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* LoadGraphs(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* VerifyGraphs(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* EvictGraphs(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* PinGraphs(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* ExportGraphs(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) override;
  grpc::ServerReadReactor<grpc::ByteBuffer>* ImportGraphs(grpc::CallbackServerContext* context,
                                                          grpc::ByteBuffer* response) override;

 private:
  using Results = absl::StatusOr<std::vector<engine::EntryResult>>;

  // A call that does `act` to the graphs that its request selects.
  template <typename Request, typename Act>
  grpc::ServerUnaryReactor* ActOn(AdminWorker& worker, absl::string_view method,
                                  grpc::CallbackServerContext& context,
                                  const grpc::ByteBuffer& bytes, grpc::ByteBuffer& response,
                                  Act act);
  absl::StatusOr<std::shared_ptr<void>> AdmitImport();

  const generation::CallEnvironment environment_;
  const Imports imports_;
  const OperatorCheck check_;
  Tickets exports_now_;
  Tickets imports_now_;
  AdminWorker preparing_;
  AdminWorker files_;
  AdminWorker listing_;
};

}  // namespace latentd::server::admin
