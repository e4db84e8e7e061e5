// The options of `latent generate` and `latent animate` that become fields of the request: made of
// the proto, where each field has its help (Flag).
#pragma once

#include <string>
#include <vector>

#include "client/options/arguments.h"
#include "latent/v1/image_generation.pb.h"
#include "latent/v1/video_generation.pb.h"

namespace latentd::client {

namespace v1 = ::latent::v1;

// Option for the field of that name; `message` must outlive it.
Option FieldOption(google::protobuf::Message& message, const std::string& name);

// Every field has one, except the prompt and the output; `request` must outlive them.
std::vector<OptionGroup> RequestOptions(v1::GenerateRequest& request);
// The same of `latent animate`, but for the image.
std::vector<OptionGroup> RequestOptions(v1::GenerateVideoRequest& request);

// The spelling that a user types for a field of the proto: "num_inference_steps" is
// --num-inference-steps.
std::string OptionSpelling(const std::string& field);

}  // namespace latentd::client
