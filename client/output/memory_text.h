// A server's memory report, as people read it.
#pragma once

#include <string>

#include "latent/v1/admin.pb.h"

namespace latentd::client {

// Tables of the weights by component, of the device (of several together, then of each) and of the
// host; one of both where the device has no memory of its own.
std::string MemoryText(const ::latent::v1::MemoryReport& report);

}  // namespace latentd::client
