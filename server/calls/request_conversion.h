// From the proto to what the engine takes.
#pragma once

#include <vector>

#include "core/base/error_details.h"
#include "core/engine/api/generate_spec.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::server::calls {

// A spec, and what is wrong with the request's form (request_form.h). What values mean is checked
// by engine::Engine::Validate, which can be asked in any case: the spec holds everything that could
// be converted.
struct ConvertedRequest {
  engine::GenerateSpec spec;
  std::vector<FieldViolation> violations;
};

// Thread-safe; a free function without state.
ConvertedRequest ToSpec(latent::v1::GenerateRequest request);

}  // namespace latentd::server::calls
