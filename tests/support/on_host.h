// Copies of a device's memory that a test can read.
#pragma once

#include <cstring>

#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "core/base/errors/status_macros.h"
#include "core/device/host_device.h"

namespace latentd::testing {

inline device::Buffer OnHost(const device::ConstBuffer& buffer) {
  device::Buffer copy = device::Buffer::Allocate(buffer.dtype(), buffer.shape());
  std::memcpy(copy.data(), device::Host().AddressOf(buffer), buffer.bytes());
  return copy;
}

// Copies from any device, once the work enqueued before has run.
inline absl::StatusOr<device::Buffer> CopyToHost(device::Device& device,
                                                 const device::ConstBuffer& buffer) {
  ASSIGN_OR_RETURN(const auto stream, device.NewStream(SystemClock()));
  device::Buffer copy = device::Buffer::Allocate(buffer.dtype(), buffer.shape());
  RETURN_IF_ERROR(device.Copy(buffer, copy, *stream));
  RETURN_IF_ERROR(stream->Synchronize());
  return copy;
}

}  // namespace latentd::testing
