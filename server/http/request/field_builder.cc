#include "server/http/request/field_builder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/http/exchange/http_status.h"
#include "server/http/request/field_values.h"

namespace latentd::server::http {

bool FieldBuilder::IsField(absl::string_view name) const {
  return http::IsField(*message_.GetDescriptor(), name);
}

void FieldBuilder::Set(absl::string_view field, const nlohmann::json& value,
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
  SetField(field, value, message_, violations);
  for (FieldViolation& violation : violations) Refuse(name, std::move(violation.description));
}

void FieldBuilder::SetImage(std::string bytes, absl::string_view name) {
  if (IsSet("image")) return Refuse(name, "is a second picture; latentd starts from one");
  Call("image", name);
  message_.GetReflection()->SetString(&message_, message_.GetDescriptor()->FindFieldByName("image"),
                                      std::move(bytes));
}

void FieldBuilder::Call(absl::string_view field, absl::string_view name) {
  names_.insert_or_assign(std::string(field), std::string(name));
}

void FieldBuilder::Refuse(absl::string_view name, std::string why) {
  violations_.push_back({std::string(name), std::move(why)});
}

void FieldBuilder::RefuseUnknown(absl::string_view name) {
  if (violations_.empty()) reason_ = kUnknownParameter;
  Refuse(name.substr(0, 64),
         "is no parameter that this server knows; left out, it would change "
         "what is drawn");
}

void FieldBuilder::RefuseUnsupported(absl::string_view name, std::string why) {
  if (violations_.empty()) reason_ = kUnsupportedValue;
  Refuse(name, std::move(why));
}

absl::Status FieldBuilder::status() const {
  if (violations_.empty()) return absl::OkStatus();
  const absl::Status bad = InvalidFields(violations_);
  return reason_.empty() ? bad : WithReason(bad, reason_);
}

}  // namespace latentd::server::http
