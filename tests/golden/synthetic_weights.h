// Weights made from nothing but their names, so that a case needs no checkpoint (README.md beside
// the cases has the recipe).
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "core/device/shape.h"
#include "core/weights/stored_tensor.h"

namespace latentd::golden {

// The tensors of these names (as on disk, without a component) and shapes. They lie in a temporary
// file that is already deleted and goes with the last tensor, so that the kernel may drop pages:
// whole SDXL networks have 10 GB.
absl::StatusOr<weights::TensorMap> MakeSyntheticWeights(
    const std::map<std::string, device::Shape>& shapes);

}  // namespace latentd::golden
