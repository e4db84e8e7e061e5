// A GenerateRequest that is put together of what a client of HTTP sent, whatever it calls its
// fields.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/errors/error_details.h"
#include "latent/v1/image_generation.pb.h"
#include "nlohmann/json.hpp"
#include "server/http/exchange/error_body.h"

namespace latentd::server::http {

// Not thread-safe.
class RequestBuilder {
 public:
  // `defaults` outlive the builder.
  RequestBuilder(const latent::v1::GenerateRequest& defaults, latent::v1::GenerateRequest& request)
      : defaults_(defaults), request_(request) {}

  // Sets a field by its name in the proto (field_values.h), which the client calls `name`. One that
  // was set before, to another value, is a violation: two names may stand for one field.
  void Set(absl::string_view field, const nlohmann::json& value, absl::string_view name);
  void SetImage(std::string bytes, absl::string_view name);

  // The field is to be called `name` in errors.
  void Call(absl::string_view field, absl::string_view name);
  bool IsSet(absl::string_view field) const { return names_.find(field) != names_.end(); }

  // Sets the fields of `defaults` that the request has not, where they go with those that it has:
  // strength with an image alone, refine without one, steps with no schedule of its own. To be
  // called once the client's are set.
  void SetDefaults();

  // A violation, by the client's name.
  void Refuse(absl::string_view name, std::string why);
  // A key that is not known, and a value that this server cannot do: as Refuse, and the error's
  // reason is UNKNOWN_PARAMETER or UNSUPPORTED_VALUE where it is the first.
  void RefuseUnknown(absl::string_view name);
  void RefuseUnsupported(absl::string_view name, std::string why);

  const FieldNames& names() const { return names_; }
  latent::v1::GenerateRequest& request() { return request_; }

  // INVALID_ARGUMENT with all violations.
  absl::Status status() const;

 private:
  const latent::v1::GenerateRequest& defaults_;
  latent::v1::GenerateRequest& request_;
  FieldNames names_;
  nlohmann::json values_ = nlohmann::json::object();  // by field
  std::vector<FieldViolation> violations_;
  absl::string_view reason_;  // empty: none
};

}  // namespace latentd::server::http
