// libFuzzer target: a request's target in the first line and its headers in the others, as the
// parser of HTTP has found them, judged as connections do before a body is read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/http/exchange/answer_head.h"
#include "server/http/exchange/origin.h"
#include "server/http/exchange/target.h"
#include "server/http/routes/request_limits.h"
#include "server/http/routes/router.h"

namespace {

namespace http = ::latentd::server::http;

http::Request RequestIn(absl::string_view text) {
  http::Request request = {.method = "POST"};
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  http::SetTarget(std::string(lines.front()), request);
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::pair<absl::string_view, absl::string_view> header =
        absl::StrSplit(lines[i], absl::MaxSplits(':', 1));
    if (header.first == "method") request.method = std::string(header.second);
    request.headers.emplace_back(std::string(header.first), std::string(header.second));
  }
  return request;
}

const http::Router& Routes() {
  static const auto& router =
      *new http::Router({{.method = "GET", .path = "/v1/models"},
                         {.method = "GET", .path = "/v1/models/*"},
                         {.method = "POST", .path = "/", .has_picture = true},
                         {.method = "POST", .path = "/hf"}});
  return router;
}

// A head is lines that end once, whatever the client's headers have.
void CheckHead(const http::Answer& answer) {
  const std::string head = http::HeadOf(answer, {.length = 1}, absl::UnixEpoch());
  const size_t end = head.find("\r\n\r\n");
  if (!absl::StartsWith(head, "HTTP/1.1 ") || end != head.size() - 4) std::abort();
}

void CheckRoute(const http::Request& request) {
  const http::Router::Found found = Routes().Find(request.method, request.path);
  if ((found.route == nullptr) == found.status.ok()) std::abort();
  if (found.route == nullptr) return CheckHead(http::RefuseAt(request.path, found.status));
  const int64_t most = http::MostBodyBytes(*found.route, request, 1 << 20);
  if (most <= 0 || most > 2 << 20) std::abort();
  http::CheckBody(request, 1, most).IgnoreError();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const http::Request request = RequestIn({reinterpret_cast<const char*>(data), size});
  if (request.path.size() + request.query.size() > size) std::abort();
  const http::Origins allowed = {"https://a.example", "http://localhost:1"};
  for (const bool loopback_only : {false, true}) {
    const absl::Status judged = http::CheckOrigin(request, loopback_only, allowed);
    if (!judged.ok()) CheckHead(http::RefuseAt(request.path, judged));
  }
  http::Answer answer =
      http::IsPreflight(request, allowed) ? http::PreflightAnswer() : http::Answer();
  for (http::Header& header : http::CorsHeaders(request, {"*"})) {
    answer.headers.push_back(std::move(header));
  }
  CheckHead(answer);
  CheckRoute(request);
  http::CheckHead(request, /*version=*/11).IgnoreError();
  const auto deadline = http::DeadlineOf(request, absl::UnixEpoch());
  if (deadline.ok() && *deadline < absl::UnixEpoch()) std::abort();
  return 0;
}
