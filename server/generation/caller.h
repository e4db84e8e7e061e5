// The caller of a call, for a fair share of the device and for the highest priority that it may ask
// for: the name in the client's certificate, else the host that it came from.
//
// Pure: any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace latentd::server::generation {

// The caller's name by its certificate's, which are its subject alternative names, or, where it has
// none, its common name: with commas between them; a comma in a name is "%2C".
std::string CallerOf(const std::vector<absl::string_view>& names);

// Host in gRPC's name of a peer, "ipv4:192.0.2.1:50000" or "ipv6:%5B2001:db8::1%5D:50000": its
// address, or for version 6 its network of 64 bits, as a host has many addresses there. Others
// as they are: "unix".
std::string HostOf(absl::string_view peer);

}  // namespace latentd::server::generation
