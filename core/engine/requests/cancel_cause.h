// Why a job ends before its time, and what its client is told.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace latentd::engine {

enum class CancelCause : uint8_t {
  kNone,
  kClient,
  kDeadline,
  kDrain,
  kOutOfMemory,
  kDeviceFault,  // the last device has failed
  kDeviceLost    // one of several has
};

// REQUIRES: not kNone.
absl::Status StatusOf(CancelCause cause);

}  // namespace latentd::engine
