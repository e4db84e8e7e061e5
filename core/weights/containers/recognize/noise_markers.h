// The way in which a checkpoint predicts noise, told by tensors and metadata beside its networks.
//
// Thread-safe: free functions without state.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/weights/containers/recognize/file_family.h"
#include "core/weights/source.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

// A safetensors header's __metadata__.
using Metadata = absl::flat_hash_map<std::string, std::string>;

struct NoiseMarkers {
  NoisePrediction prediction = NoisePrediction::kEpsilon;
  std::string decided_by;  // a sentence's end: "the tensor v_pred"
  // Playground's: mean and standard deviation of each channel of latents.
  std::vector<double> latents_mean, latents_std;
};

// The end of the sentence for what no marker says.
inline constexpr absl::string_view kDecidedByDefault = "default";
// The end of the sentence for what an operator says.
inline constexpr absl::string_view kDecidedByFlag = "--prediction-type";

// True if it is a marker or the metadata that decided.
bool IsMarked(const NoiseMarkers& markers);

// Reads the few scalars that tell. `unet` has the UNet's tensors by diffusers' names, and `said` is
// the prediction_type that counts over all that is in the file, but for the style of EDM; empty:
// none.
// INVALID_ARGUMENT, beginning with `path`: a kind of prediction that is not served, or a scalar
// that cannot be read.
absl::StatusOr<NoiseMarkers> ReadNoiseMarkers(const std::string& path, const TensorMap& tensors,
                                              const Metadata& metadata, FileFamily family,
                                              const SourceMap& unet, absl::string_view said = {});

// Values of a small tensor of floats; nullopt: it has no memory, or another dtype.
std::optional<std::vector<double>> ReadValues(const StoredTensor& tensor);

}  // namespace latentd::weights
