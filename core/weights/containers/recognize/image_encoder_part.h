// The image encoder of a file: the visual half of OpenCLIP's model, whose fused projections are
// split and whose last one is transposed by Sources.
//
// Thread-safe: free functions without state.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/weights/source.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

inline constexpr char kImageEncoderPrefix[] = "conditioner.embedders.0.open_clip.model.visual.";

struct ImageEncoderPart {
  // config.json; an error where its heads, which no tensor tells, are not those of published
  // models.
  absl::StatusOr<std::string> config;
  SourceMap sources;
};

// Nothing: it is not there. INVALID_ARGUMENT, beginning with `path`, names the tensors that are
// missing, misshapen or left over.
absl::StatusOr<std::optional<ImageEncoderPart>> ReadImageEncoder(const std::string& path,
                                                                 const TensorMap& tensors);

}  // namespace latentd::weights
