// What lies in memory of the host's device, copied to where a test can read it.
#pragma once

#include <cstring>

#include "core/device/host_device.h"

namespace latentd::testing {

inline device::Buffer OnHost(const device::ConstBuffer& buffer) {
  device::Buffer copy = device::Buffer::Allocate(buffer.dtype(), buffer.shape());
  std::memcpy(copy.data(), device::Host().AddressOf(buffer), buffer.bytes());
  return copy;
}

}  // namespace latentd::testing
