// --tls and its relatives.
#pragma once

#include "client/arguments.h"
#include "client/commands.h"

namespace latentd::client {

// Reads files as the options name them.
OptionGroup TlsOptions(Connection& connection);

// INVALID_ARGUMENT where the client's certificate and key are not two that belong together. Call it
// when all options are applied.
absl::Status CheckTls(const Connection& connection);

// Why no connection comes about, where TLS is the reason; else empty. Connects once more, for as
// long as two seconds.
std::string ExplainTls(const Connection& connection);

}  // namespace latentd::client
