// The weights that a ControlNet of some configuration has.
//
// Thread-safe: free functions without state.
#pragma once

#include "absl/status/status.h"
#include "core/networks/config/control_net_config.h"
#include "core/weights/stored_tensor.h"

namespace latentd::adapters {

// OK if the tensors are just these, but for those that no network reads (counters, schedules).
// INVALID_ARGUMENT names some that are missing, are shaped otherwise, or are no part of the
// network.
absl::Status CheckTensors(const networks::ControlNetConfig& config,
                          const weights::TensorMap& tensors);

}  // namespace latentd::adapters
