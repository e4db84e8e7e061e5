// The client of a gRPC call.
//
// Thread-safe: free functions without state.
#pragma once

#include <grpcpp/server_context.h>

#include <string>

#include "absl/status/status.h"
#include "server/generation/active_calls.h"
#include "server/generation/client.h"

namespace latentd::server::calls {

// UNAUTHENTICATED where calls need a key, and this one has none of the server's.
absl::Status CheckKey(const generation::CallEnvironment& environment,
                      const grpc::CallbackServerContext& context);

// The same for a method of operators, and PERMISSION_DENIED for a key that is not one of theirs.
absl::Status CheckOperator(const generation::CallEnvironment& environment,
                           const grpc::CallbackServerContext& context);

// By its key's name, else by that in its certificate, else by its host
// (server/generation/caller.h).
std::string CallerOf(const generation::CallEnvironment& environment,
                     const grpc::CallbackServerContext& context);

// Its deadline and the trace that its metadata names, too.
generation::Client ClientOf(const generation::CallEnvironment& environment,
                            const grpc::CallbackServerContext& context);

}  // namespace latentd::server::calls
