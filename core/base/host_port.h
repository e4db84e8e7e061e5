// Addresses of the form HOST:PORT.
#pragma once

#include <string>

namespace latentd {

// Without the brackets around an IPv6 address. Thread-safe; a free function without state.
std::string HostOf(const std::string& address);

}  // namespace latentd
