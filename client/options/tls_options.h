// --tls and its relatives.
#pragma once

#include "client/options/arguments.h"
#include "client/options/connection.h"

namespace latentd::client {

// Reads files as the options name them.
OptionGroup TlsOptions(Connection& connection);

// INVALID_ARGUMENT where the client's certificate and key are not two that belong together. Call it
// when all options are applied.
absl::Status CheckTls(const Connection& connection);

// The words for a call that failed with `status` where TLS is the reason; else empty. Connects
// once more where no server answered, for as long as two seconds.
std::string ExplainTls(const grpc::Status& status, const Connection& connection);

}  // namespace latentd::client
