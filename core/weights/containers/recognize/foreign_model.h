// Names models and add-ons that are not served by the names of their tensors, and UNets by their
// sizes.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <string>

#include "core/weights/stored_tensor.h"

namespace latentd::weights {

// "a checkpoint of FLUX, which is not served: ..."; empty for names of no model that is known here.
std::string DescribeForeignTensors(const TensorMap& tensors);

// The same of a UNet that takes so many channels, and so many added features (0: none); empty where
// its sizes are those of a UNet that is served.
std::string DescribeForeignUnet(int64_t in_channels, int64_t added_features);

// Weights that stand for others than they hold: quantised to few bits. Empty: none are there.
std::string DescribeQuantization(const TensorMap& tensors);

}  // namespace latentd::weights
