#include "server/http/routes/router.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/errors/error_details.h"
#include "server/http/exchange/http_status.h"
#include "server/http/hugging_face/hugging_face_dialect.h"
#include "server/http/openai/openai_dialect.h"
#include "server/http/sdapi/sdapi_dialect.h"

namespace latentd::server::http {
namespace {

bool IsAt(const Route& route, absl::string_view path) {
  const absl::string_view pattern = route.path;
  const size_t star = pattern.find('*');
  if (star == absl::string_view::npos) return path == pattern;
  const absl::string_view begin = pattern.substr(0, star), end = pattern.substr(star + 1);
  return path.size() > begin.size() + end.size() && absl::StartsWith(path, begin) &&
         absl::EndsWith(path, end);
}

bool Takes(const Route& route, absl::string_view method) {
  return route.method == method || (route.method == "GET" && method == "HEAD");
}

}  // namespace

Router::Found Router::Find(absl::string_view method, absl::string_view path) const {
  Found found;
  if (path.size() > 1) path = absl::StripSuffix(path, "/");
  for (const Route& route : routes_) {
    if (!IsAt(route, path)) continue;
    if (Takes(route, method)) return {.route = &route};
    absl::StrAppend(&found.allow, found.allow.empty() ? "" : ", ",
                    route.method == "GET" ? "GET, HEAD" : route.method);
  }
  found.status =
      found.allow.empty()
          ? WithReason(absl::NotFoundError("there is nothing at this path; docs/http.md "
                                           "has those that there are"),
                       kNoSuchRoute)
          : WithReason(
                absl::InvalidArgumentError(absl::StrCat("this path takes ", found.allow, " only")),
                kMethodNotAllowed);
  return found;
}

Answer RefuseAt(absl::string_view path, const absl::Status& status) {
  if (path == "/hf") return HuggingFaceRefusal(status);
  return absl::StartsWith(path, "/sdapi/") ? SdapiRefusal(status) : OpenAiRefusal(status);
}

}  // namespace latentd::server::http
