// Weights of 8-bit floats with a scale beside them, as ComfyUI writes them: X.weight is what is
// stored times X.scale_weight, or X.weight_scale in newer files, which is one number.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>

#include "core/weights/source.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

// The source of a tensor of 8-bit floats: as it is where no scale is beside it, else times that. To
// use one with another kind of scale is an error (StoredTensor::unusable_dtype), since without it
// the weight would be another. REQUIRES: `tensors` has the name.
Source ScaledSource(const TensorMap& tensors, const std::string& name);

// The sources of all tensors, each as it is stored, but for 8-bit floats: these are scaled.
SourceMap SourcesOf(const TensorMap& tensors);

}  // namespace latentd::weights
