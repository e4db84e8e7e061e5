// Weights of 8-bit floats with a scale beside them, as ComfyUI writes them: X.weight is what is
// stored times X.scale_weight, or X.weight_scale in newer files, which is one number.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/weights/source.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

// Names that the scale of the weight X.weight may have; none for a name that ends otherwise.
std::vector<std::string> ScaleNames(absl::string_view weight);

// The source of a tensor of 8-bit floats, times its scale. To use one with another kind of scale
// than one number is an error (StoredTensor::unusable_dtype), since without it the weight would be
// another.
Source ScaledSource(const StoredTensor& tensor, const StoredTensor& scale,
                    absl::string_view scale_name);

// Each tensor as it is stored, those of 8-bit floats times the scale that is beside them.
SourceMap SourcesOf(const TensorMap& tensors);

}  // namespace latentd::weights
