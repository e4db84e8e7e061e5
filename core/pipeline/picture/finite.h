// NaN and infinity never leave as a picture.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "core/device/buffer.h"

namespace latentd::pipeline {

inline constexpr char kNotFinite[] = "NOT_FINITE";

// A graph's word on whether its result is finite.
struct FiniteFlag {
  // INTERNAL with reason kNotFinite, "WHAT: some values are not finite", unless the flag says that
  // all are. REQUIRES: it has arrived.
  absl::Status Check() const;

  device::Buffer flag;  // u8 [1], on the host
  std::string what;
  // Gave them, from values that were finite: so its tensors are what to look at.
  std::string network;
};

}  // namespace latentd::pipeline
