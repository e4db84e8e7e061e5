// Addresses of the form HOST:PORT.
#pragma once

#include <string>

namespace latentd {

// Without the brackets around an IPv6 address. Thread-safe; a free function without state.
std::string HostOf(const std::string& address);

// Whether the host is this machine, by what it is called: "localhost", 127.0.0.0/8 or ::1. The
// same.
bool IsLoopback(const std::string& address);

}  // namespace latentd
