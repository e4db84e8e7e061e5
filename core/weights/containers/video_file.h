// Recognises a Stable Video Diffusion checkpoint in one file, as single_file.h does those of
// images: svd.safetensors and svd_xt.safetensors, as they were published.
//
// Thread-safe: a free function without state.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/weights/containers/single_file.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

// Its parts are "unet", "vae" and "image_encoder". Errors as RecognizeSingleFile's. REQUIRES:
// HasVideoUnet(tensors), whose names have no "state_dict.".
absl::StatusOr<SingleFile> RecognizeVideoFile(const std::string& path, const TensorMap& tensors);

}  // namespace latentd::weights
