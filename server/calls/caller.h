// Who a call is from, for a fair share of the device and for the highest priority that it may ask
// for: whom the client's certificate names, else the host that it came from.
//
// Pure: any thread.
#pragma once

#include <grpcpp/server_context.h>

#include <string>

#include "absl/strings/string_view.h"

namespace latentd::server::calls {

// Of a certificate its subject alternative names with commas between them, or, where it has none,
// its common name; a comma in a name is "%2C".
std::string CallerOf(const grpc::CallbackServerContext& context);

// Of gRPC's name of a peer, "ipv4:192.0.2.1:50000" or "ipv6:%5B2001:db8::1%5D:50000": the address,
// of version 6 its network of 64 bits, since a host has as many addresses there as it likes. Others
// as they are: "unix".
std::string HostOf(absl::string_view peer);

}  // namespace latentd::server::calls
