#include "server/http/request/request_builder.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <vector>

namespace latentd::server::http {
namespace {

using google::protobuf::FieldDescriptor;

bool HasField(const latent::v1::GenerateRequest& request, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *request.GetReflection();
  return field.is_repeated() ? reflection.FieldSize(request, &field) > 0
                             : reflection.HasField(request, &field);
}

// True if the request has said the same otherwise, or has nothing that the field is of.
bool GoesWith(const latent::v1::GenerateRequest& request, absl::string_view field) {
  if (field == "strength") {
    return request.has_image() && !request.has_mask_image() && !request.has_denoising_start();
  }
  const bool has_schedule = request.timesteps_size() > 0 || request.sigmas_size() > 0;
  if (field == "num_inference_steps") return !has_schedule;
  if (field == "timesteps" || field == "sigmas") {
    return !has_schedule && !request.has_num_inference_steps();
  }
  if (field == "guidance_stop" || field == "feature_cache_interval") return !request.has_effort();
  return field != "refine" || !request.has_image();
}

}  // namespace

void RequestBuilder::SetDefaults() {
  const google::protobuf::Reflection& reflection = *defaults_.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(defaults_, &fields);
  latent::v1::GenerateRequest missing = defaults_;
  for (const FieldDescriptor* field : fields) {
    const bool said = HasField(request_, *field) || IsSet(field->name());
    if (said || !GoesWith(request_, field->name())) reflection.ClearField(&missing, field);
  }
  request_.MergeFrom(missing);
}

}  // namespace latentd::server::http
