// One call of ExportGraphs: an artifact is fetched on the worker when the client has taken the one
// before, so that one is held at a time and a slow client keeps no other waiting.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>

#include "core/engine/api/graph_admin.h"
#include "latent/v1/graph_cache.pb.h"
#include "server/admin/admin_worker.h"
#include "server/generation/active_calls.h"

namespace latentd::server::admin {

// The reactor of the call; it ends its own life. FAILED_PRECONDITION, reason NOT_COMPILED, names
// every graph that is selected and not compiled, before anything is sent. All arguments
// outlive the call.
// `ticket` is released before the client sees the call end.
grpc::ServerWriteReactor<grpc::ByteBuffer>* StartExport(generation::CallEnvironment environment,
                                                        AdminWorker& worker,
                                                        engine::GraphSelector selector,
                                                        std::shared_ptr<void> ticket,
                                                        grpc::CallbackServerContext& context);

}  // namespace latentd::server::admin
