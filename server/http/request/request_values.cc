#include "server/http/request/request_values.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/unique_json.h"
#include "core/base/text/text.h"
#include "core/base/text/utf8.h"
#include "server/http/exchange/multipart.h"

namespace latentd::server::http {
namespace {

absl::Status MalformedPart(const Part& part, absl::string_view why) {
  return WithReason(absl::InvalidArgumentError(
                        absl::StrCat("the form's part ", latentd::Excerpt(part.name), " ", why)),
                    "MALFORMED");
}

// Forms write lists as parts of one name, which ends in "[]".
absl::Status CheckPart(const Part& part, const RequestValues& before) {
  if (!IsUtf8(part.name)) return MalformedPart(part, "has a name that is not UTF-8");
  if (part.is_file) return absl::OkStatus();
  if (!IsUtf8(part.bytes)) return MalformedPart(part, "is not UTF-8");
  const bool is_of_list = absl::EndsWith(part.name, "[]");
  return before.object.contains(part.name) && !is_of_list ? MalformedPart(part, "is there twice")
                                                          : absl::OkStatus();
}

absl::StatusOr<RequestValues> ReadForm(absl::string_view content_type, absl::string_view body) {
  ASSIGN_OR_RETURN(const std::vector<Part> parts, ParseMultipart(content_type, body));
  RequestValues values;
  for (const Part& part : parts) {
    RETURN_IF_ERROR(CheckPart(part, values));
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
  auto object = ParseUniqueJsonObject(request.body, "the body", request.body.size());
  if (!object.ok()) return WithReason(object.status(), "MALFORMED");
  return RequestValues{.object = *std::move(object)};
}

}  // namespace latentd::server::http
