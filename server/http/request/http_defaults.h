// Fields that requests over HTTP have where they do not set them, as --http-defaults has them.
//
// Thread-safe: a free function without state.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::server::http {

// A GenerateRequest in protobuf's text format: "num_inference_steps: 4 guidance_scale: 0".
// INVALID_ARGUMENT names the flag, and every field that is wrong (default_fields.h).
absl::StatusOr<latent::v1::GenerateRequest> ParseDefaults(absl::string_view text);

}  // namespace latentd::server::http
