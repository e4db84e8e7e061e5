// The averaged (EMA) weights that old training dumps have beside a UNet's own.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

// Tensors of averages in the file, with its counters.
int64_t CountEma(const TensorMap& tensors);

// The tensors with the average of each of the UNet's in its place: that of
// "model.diffusion_model.a.b" is "model_ema.diffusion_modelab", as LitEma of latent diffusion
// registers it. INVALID_ARGUMENT, beginning with `path`: there are no averages, or some lack.
absl::StatusOr<TensorMap> WithEmaWeights(const std::string& path, const TensorMap& tensors);

}  // namespace latentd::weights
