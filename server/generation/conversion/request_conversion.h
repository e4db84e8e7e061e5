// From the proto to what the engine takes.
#pragma once

#include <optional>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/engine/api/generate_spec.h"
#include "core/pipeline/spec/request/inputs.h"
#include "latent/v1/image_generation.pb.h"
#include "latent/v1/video_generation.pb.h"

namespace latentd::server::generation {

// A spec, and what is wrong with the request's form (request_form.h). What values mean is checked
// by engine::Engine::Validate, which can be asked in any case: the spec holds everything that could
// be converted.
struct ConvertedRequest {
  engine::GenerateSpec spec;
  std::vector<FieldViolation> violations;
};

// Thread-safe; free functions without state.
ConvertedRequest ToSpec(latent::v1::GenerateRequest request);

// The format of the results; one that is not known is PNG.
image::EncodeOptions OptionsOf(const latent::v1::Output& output);

// A request as it is read: what it draws, or encodes.
struct ParsedRequest {
  latent::v1::GenerateRequest request;
  // Type of the numbers that an EncodeRequest wants, whose fields `request` has.
  std::optional<pipeline::HostTensor::Type> embeds;
  // A request for videos, in place of all but the request_id of `request`.
  std::optional<latent::v1::GenerateVideoRequest> video = {};
};
ConvertedRequest ToSpec(ParsedRequest parsed);

// REQUIRES: the dtype is one of those that there are.
pipeline::HostTensor::Type FromProto(latent::v1::Tensor::Dtype dtype);

}  // namespace latentd::server::generation
