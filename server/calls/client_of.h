// The client of a gRPC call.
//
// Thread-safe: free functions without state.
#pragma once

#include <grpcpp/server_context.h>

#include <string>

#include "server/generation/client.h"

namespace latentd::server::calls {

// By the name in its certificate, else by its host (server/generation/caller.h).
std::string CallerOf(const grpc::CallbackServerContext& context);

// Its deadline and the trace that its metadata names, too.
generation::Client ClientOf(const grpc::CallbackServerContext& context);

}  // namespace latentd::server::calls
