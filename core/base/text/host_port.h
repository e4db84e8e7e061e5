// Addresses of the form HOST:PORT.
#pragma once

#include <string>

namespace latentd {

// Without the brackets around an IPv6 address. Thread-safe; a free function without state.
std::string HostOf(const std::string& address);

// True if the host is a name or address of this machine: "localhost", 127.0.0.0/8 or ::1.
// Thread-safe, too.
bool IsLoopback(const std::string& address);

}  // namespace latentd
