// The UNet of a Stable Video Diffusion file: diffusers' UNetSpatioTemporalConditionModel, by the
// names of sgm, the code that it was trained with. Its architecture comes from names and shapes.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/weights/containers/recognize/part_reader.h"
#include "core/weights/source.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

struct VideoUnetPart {
  // config.json; an error where its heads, which no tensor tells, are not those of published
  // models.
  absl::StatusOr<std::string> config;
  SourceMap sources;
};

// True of a checkpoint whose UNet looks across frames, under the name that it has beside other
// components.
bool HasVideoUnet(const TensorMap& tensors);

// INVALID_ARGUMENT, beginning with `path`: names the tensors that are missing, misshapen or left
// over; or it is SV3D, which is told another number of things. REQUIRES: HasVideoUnet.
absl::StatusOr<VideoUnetPart> ReadVideoUnet(const std::string& path, const TensorMap& tensors);

}  // namespace latentd::weights
