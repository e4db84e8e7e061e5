// --api-key-file, and the key that calls show where a server asks for one.
#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/options/arguments.h"
#include "client/options/connection.h"

namespace latentd::client {

// Gives the connection the key of $LATENTD_API_KEY, and that of the file instead where the option
// is there. No option takes a key itself, which every user of the machine could read.
Option ApiKeyOption(Connection& connection);

// INVALID_ARGUMENT for a key that cannot be sent, and has no key in it. Call it when all options
// are applied.
absl::Status CheckApiKey(const Connection& connection);

// The key of a file that is a key, or has lines "NAME KEY" and "NAME KEY operator" as
// --api-key-file of latentd: the first one there. INVALID_ARGUMENT begins with `file`.
absl::StatusOr<std::string> FirstKeyOf(absl::string_view text, absl::string_view file);

// Returns the words on where the key comes from, for a call that was refused for its key or for the
// want of one; empty where it was refused for something else.
std::string ExplainApiKey(const grpc::Status& status, const Connection& connection);

}  // namespace latentd::client
