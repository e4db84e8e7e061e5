#include "server/http/request/request_builder.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/http/exchange/http_status.h"
#include "server/http/request/field_values.h"

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
  return field != "refine" || !request.has_image();
}

}  // namespace

void RequestBuilder::Set(absl::string_view field, const nlohmann::json& value,
                         absl::string_view name) {
  if (value.is_null()) return;
  if (IsSet(field)) {
    const auto before = values_.find(std::string(field));
    if (before != values_.end() && *before == value) return;
    return Refuse(name, absl::StrCat("is given as ", names_.find(field)->second, " too"));
  }
  Call(field, name);
  if (!value.is_string()) values_[std::string(field)] = value;  // texts may be pictures
  std::vector<FieldViolation> violations;
  SetField(field, value, request_, violations);
  for (FieldViolation& violation : violations) Refuse(name, std::move(violation.description));
}

void RequestBuilder::SetImage(std::string bytes, absl::string_view name) {
  if (IsSet("image")) return Refuse(name, "is a second picture; latentd starts from one");
  Call("image", name);
  request_.set_image(std::move(bytes));
}

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

void RequestBuilder::Call(absl::string_view field, absl::string_view name) {
  names_.insert_or_assign(std::string(field), std::string(name));
}

void RequestBuilder::Refuse(absl::string_view name, std::string why) {
  violations_.push_back({std::string(name), std::move(why)});
}

void RequestBuilder::RefuseUnknown(absl::string_view name) {
  if (violations_.empty()) reason_ = kUnknownParameter;
  Refuse(name.substr(0, 64),
         "is no parameter that this server knows; left out, it would change "
         "what is drawn");
}

void RequestBuilder::RefuseUnsupported(absl::string_view name, std::string why) {
  if (violations_.empty()) reason_ = kUnsupportedValue;
  Refuse(name, std::move(why));
}

absl::Status RequestBuilder::status() const {
  if (violations_.empty()) return absl::OkStatus();
  const absl::Status bad = InvalidFields(violations_);
  return reason_.empty() ? bad : WithReason(bad, reason_);
}

}  // namespace latentd::server::http
