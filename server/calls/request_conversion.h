// From the proto to what the engine takes.
#pragma once

#include <vector>

#include "core/base/error_details.h"
#include "core/engine/generate_spec.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::server::calls {

// A spec, and what is wrong with the request's form: numbers that are not finite, enum values and
// fields that this server does not know, texts that are too long. What values mean is checked by
// engine::Engine::Validate, which can be asked in any case: the spec holds everything that could be
// converted.
struct ConvertedRequest {
  engine::GenerateSpec spec;
  std::vector<FieldViolation> violations;
};

// Longest prompt, and longest request_id, in bytes.
inline constexpr size_t kMaxPromptBytes = 65536;
inline constexpr size_t kMaxRequestIdBytes = 128;

// Thread-safe; a free function without state.
ConvertedRequest ToSpec(latent::v1::GenerateRequest request);

}  // namespace latentd::server::calls
