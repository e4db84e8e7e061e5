// Numbers of the host that a device copies.
#pragma once

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/errors/status_macros.h"
#include "core/device/device.h"

namespace latentd::pipeline {

// `values` in memory that copies keep alive. REQUIRES: T is the C++ type of `dtype`; as many values
// as the shape has elements.
template <typename T>
absl::StatusOr<device::Buffer> Pinned(device::Device& device, device::DType dtype,
                                      device::Shape shape, absl::Span<const T> values) {
  ASSIGN_OR_RETURN(device::Buffer buffer,
                   device.Allocate(dtype, std::move(shape), device::Place::kPinned));
  std::copy(values.begin(), values.end(), buffer.as<T>().begin());
  return buffer;
}

// A graph's input of one number.
inline absl::StatusOr<device::Buffer> ScaleOf(device::Device& device, double value) {
  const auto scale = static_cast<float>(value);
  return Pinned<float>(device, device::DType::kF32, {1}, {&scale, 1});
}

}  // namespace latentd::pipeline
