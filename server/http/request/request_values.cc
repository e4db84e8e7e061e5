#include "server/http/request/request_values.h"

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/json.h"
#include "server/http/exchange/multipart.h"

namespace latentd::server::http {
namespace {

absl::StatusOr<RequestValues> ReadForm(absl::string_view content_type, absl::string_view body) {
  ASSIGN_OR_RETURN(const std::vector<Part> parts, ParseMultipart(content_type, body));
  RequestValues values;
  for (const Part& part : parts) {
    if (part.is_file) {
      values.files.emplace_back(part.name, std::string(part.bytes));
    } else {
      values.object[part.name] = std::string(part.bytes);
    }
  }
  return values;
}

}  // namespace

absl::StatusOr<RequestValues> ReadValues(const Request& request) {
  const absl::string_view type = request.Find("content-type");
  if (IsMultipart(type)) return ReadForm(type, request.body);
  auto object = ParseJsonObject(request.body, "the body", request.body.size());
  if (!object.ok()) return WithReason(object.status(), "MALFORMED");
  return RequestValues{.object = *std::move(object)};
}

}  // namespace latentd::server::http
