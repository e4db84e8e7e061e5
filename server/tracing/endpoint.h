// The collector of spans that --otlp-endpoint names.
//
// Pure: any thread.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace latentd::server::tracing {

struct Endpoint {
  std::string address;  // HOST:PORT
  bool tls = false;

  bool operator==(const Endpoint&) const = default;
};

// "HOST:PORT", "http://HOST:PORT" in plain text, "https://HOST:PORT" with TLS, where the port may
// be left out (4317). Nothing where it is none of these: OTLP over gRPC has no path.
std::optional<Endpoint> ParseEndpoint(absl::string_view text);

}  // namespace latentd::server::tracing
