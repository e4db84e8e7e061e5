// Descriptions of failed handshakes, from gRPC's log.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace latentd::server::process {

// `message` is a line of gRPC's log; nothing where it is about something else. Thread-safe.
std::optional<std::string> ExplainHandshakeFailure(absl::string_view message);

}  // namespace latentd::server::process
