// Fields that requests are given where they do not set them: which may be given, and with which
// values.
//
// Thread-safe: a free function without state.
#pragma once

#include <vector>

#include "core/base/errors/error_details.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::server::generation {

// A violation for each field that is each request's own (its prompt, picture, seed, id), and for
// each value that no model draws with, by the table of fields. Models themselves may take less.
std::vector<FieldViolation> CheckDefaults(const latent::v1::GenerateRequest& defaults);

}  // namespace latentd::server::generation
