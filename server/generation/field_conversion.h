// Conversion of the fields of a request between the proto and a spec: of each row of the table
// (core/pipeline/spec/fields.h), whose name is the proto's.
//
// Thread-safe: free functions without state.
#pragma once

#include "core/pipeline/spec/fields.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::server::generation {

// Sets the fields that the request has. A value that its enum does not have is its default.
void SetFields(const latent::v1::GenerateRequest& request, pipeline::PictureSpec& spec);

// Sets the fields that the spec has.
void SetFields(const pipeline::PictureSpec& spec, latent::v1::GenerateRequest& request);

}  // namespace latentd::server::generation
