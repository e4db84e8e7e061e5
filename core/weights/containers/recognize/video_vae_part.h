// The VAE of a Stable Video Diffusion file: diffusers' AutoencoderKLTemporalDecoder, by the names
// of sgm. Its encoder is the one that conditions the UNet, a VAE of images of its own in the file,
// and its decoder the one that looks across frames.
//
// Thread-safe: free functions without state.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/weights/containers/recognize/part_reader.h"
#include "core/weights/source.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

// Prefixes of the two in a file.
inline constexpr char kVideoEncoderPrefix[] = "conditioner.embedders.3.encoder.";
inline constexpr char kVideoDecoderPrefix[] = "first_stage_model.";

struct VideoVaePart {
  std::string config;  // config.json
  SourceMap sources;
};

// Nothing: one of the two is not there. INVALID_ARGUMENT, beginning with `path`, names the tensors
// that are missing, misshapen or left over.
absl::StatusOr<std::optional<VideoVaePart>> ReadVideoVae(const std::string& path,
                                                         const TensorMap& tensors);

}  // namespace latentd::weights
