// Why a job ends before its time, and what its client is told.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace latentd::engine {

enum class CancelCause : uint8_t { kNone, kClient, kDeadline, kDrain, kOutOfMemory, kDeviceFault };

// REQUIRES: not kNone.
absl::Status StatusOf(CancelCause cause);

}  // namespace latentd::engine
