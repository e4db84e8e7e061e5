// A request as a message that is put together of what a client of HTTP sent, whatever it calls its
// fields; and all that is wrong with it, in the client's words.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/errors/error_details.h"
#include "nlohmann/json.hpp"
#include "server/http/exchange/error_body.h"

namespace latentd::server::http {

// Not thread-safe.
class FieldBuilder {
 public:
  // `message` outlives the builder.
  explicit FieldBuilder(google::protobuf::Message& message) : message_(message) {}

  // True of a field of the message itself.
  bool IsField(absl::string_view name) const;

  // Sets a field by its name in the proto (field_values.h), which the client calls `name`. One that
  // was set before, to another value, is a violation: two names may stand for one field.
  void Set(absl::string_view field, const nlohmann::json& value, absl::string_view name);
  // The same of the field `image`, whose bytes came as they are.
  void SetImage(std::string bytes, absl::string_view name);

  // The field is to be called `name` in errors.
  void Call(absl::string_view field, absl::string_view name);
  bool IsSet(absl::string_view field) const { return names_.find(field) != names_.end(); }

  // A violation, by the client's name.
  void Refuse(absl::string_view name, std::string why);
  // A key that is not known, and a value that this server cannot do: as Refuse, and the error's
  // reason is UNKNOWN_PARAMETER or UNSUPPORTED_VALUE where it is the first.
  void RefuseUnknown(absl::string_view name);
  void RefuseUnsupported(absl::string_view name, std::string why);

  const FieldNames& names() const { return names_; }

  // INVALID_ARGUMENT with all violations.
  absl::Status status() const;

 private:
  google::protobuf::Message& message_;
  FieldNames names_;
  nlohmann::json values_ = nlohmann::json::object();  // by field
  std::vector<FieldViolation> violations_;
  absl::string_view reason_;  // empty: none
};

}  // namespace latentd::server::http
