#include "server/process/ports/http_pages.h"

#include <civetweb.h>
#include <libdeflate.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/text/utf8.h"
#include "server/process/ports/listen_address.h"

namespace latentd::server::process {
namespace {

// A scrape or a probe is one short request: those of two Prometheus servers and of two who probe do
// not wait for each other, and a client that connects and sends nothing is gone before the next
// scrape.
constexpr char kThreads[] = "4";
constexpr char kRequestTimeoutMs[] = "5000";

constexpr size_t kWorthCompressing = 1024;
constexpr int kCompressionLevel = 6;

struct Response {
  int code = 200;
  std::string head;  // lines of it, each with its end
  std::string body;
};

const char* StatusText(int code) {
  switch (code) {
    case 200:
      return "200 OK";
    case 404:
      return "404 Not Found";
    case 405:
      return "405 Method Not Allowed";
    default:
      return "503 Service Unavailable";
  }
}

// "gzip, deflate;q=0.5": whether gzip is among them, or anything will do.
bool TakesGzip(absl::string_view accepted) {
  for (const absl::string_view coding : absl::StrSplit(accepted, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(coding, absl::MaxSplits(';', 1));
    const absl::string_view name = absl::StripAsciiWhitespace(parts.first);
    absl::string_view weight = absl::StripAsciiWhitespace(parts.second);
    double quality = 1;
    if (absl::ConsumePrefix(&weight, "q=") && !absl::SimpleAtod(weight, &quality)) continue;
    if (quality > 0 && (absl::EqualsIgnoreCase(name, "gzip") || name == "*")) return true;
  }
  return false;
}

// Nothing where there is no memory for it.
std::optional<std::string> Gzip(absl::string_view text) {
  const std::unique_ptr<libdeflate_compressor, void (*)(libdeflate_compressor*)> compressor(
      libdeflate_alloc_compressor(kCompressionLevel), &libdeflate_free_compressor);
  if (compressor == nullptr) return std::nullopt;
  std::string bytes(libdeflate_gzip_compress_bound(compressor.get(), text.size()), '\0');
  bytes.resize(libdeflate_gzip_compress(compressor.get(), text.data(), text.size(), bytes.data(),
                                        bytes.size()));
  return bytes;
}

void Compress(const mg_connection& connection, Response& response) {
  const char* accepted = mg_get_header(&connection, "Accept-Encoding");
  if (accepted == nullptr || !TakesGzip(accepted) || response.body.size() < kWorthCompressing) {
    return;
  }
  std::optional<std::string> compressed = Gzip(response.body);
  if (!compressed) return;
  response.body = *std::move(compressed);
  absl::StrAppend(&response.head, "Content-Encoding: gzip\r\n");
}

Response ToResponse(int code, const Page::Text& page) {
  return {.code = code,
          .head = absl::StrCat("Content-Type: ", page.type,
                               "\r\nVary: Accept-Encoding\r\nCache-Control: no-store\r\n"),
          .body = ToUtf8(page.text)};
}

Response Refuse(int code, absl::string_view why) {
  return ToResponse(code, {.text = absl::StrCat(why, "\n")});
}

Response MakeResponse(const Page& page) {
  Page::Text text;
  const absl::Status made = CatchOutOfMemory([&] { text = page.make(); });
  if (!made.ok()) return Refuse(503, "out of memory");
  return ToResponse(text.is_good ? 200 : 503, text);
}

void Send(mg_connection& connection, const Response& response, bool with_body) {
  const std::string head =
      absl::StrCat("HTTP/1.1 ", StatusText(response.code), "\r\n", response.head,
                   "Content-Length: ", response.body.size(), "\r\nConnection: close\r\n\r\n");
  mg_write(&connection, head.data(), head.size());
  if (with_body) mg_write(&connection, response.body.data(), response.body.size());
}

// Null where it cannot be listened on, for a reason that the library does not know.
mg_context* Start(const std::string& listen) {
  const mg_callbacks callbacks = {};
  // With its check of domains, the library would drop absolute URIs unless they named the host as
  // it is called there. Without a method that is allowed, it asks us what OPTIONS is for.
  const char* options[] = {"listening_ports",
                           listen.c_str(),
                           "num_threads",
                           kThreads,
                           "request_timeout_ms",
                           kRequestTimeoutMs,
                           "enable_auth_domain_check",
                           "no",
                           "access_control_allow_methods",
                           "",
                           nullptr};
  return mg_start(&callbacks, nullptr, options);
}

absl::Status ExplainFailure(const std::string& listen) {
  if (absl::StartsWith(listen, "[") && mg_check_feature(MG_FEATURES_IPV6) == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot listen on ", listen,
        ": this port takes IPv4 addresses alone, such as 0.0.0.0:9464 (civetweb without IPv6)"));
  }
  return ExplainListenFailure(listen);
}

int PortOf(const mg_context& web_server) {
  mg_server_port port = {};
  return mg_get_server_ports(&web_server, 1, &port) == 1 ? port.port : 0;
}

}  // namespace

void HttpPages::Stop::operator()(mg_context* web_server) const { mg_stop(web_server); }

absl::StatusOr<std::unique_ptr<HttpPages>> HttpPages::Listen(const std::string& listen,
                                                             std::vector<Page> pages) {
  // To the library, this would be two addresses.
  if (absl::StrContains(listen, ',')) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", listen, ": HOST:PORT is needed"));
  }
  auto http = absl::WrapUnique(new HttpPages(std::move(pages)));
  http->web_server_.reset(Start(listen));
  if (http->web_server_ == nullptr) return ExplainFailure(listen);
  mg_set_request_handler(http->web_server_.get(), "**", &HttpPages::Handle, http.get());
  http->address_ =
      absl::StrCat(listen.substr(0, listen.rfind(':') + 1), PortOf(*http->web_server_));
  return http;
}

int HttpPages::Handle(mg_connection* connection, void* pages) {
  int code = 503;
  // Without memory for a word, the library closes the connection.
  CatchOutOfMemory([&] {
    code = static_cast<const HttpPages*>(pages)->Answer(*connection);
  }).IgnoreError();
  return code;
}

int HttpPages::Answer(mg_connection& connection) const {
  const mg_request_info& request = *mg_get_request_info(&connection);
  const absl::string_view method = request.request_method;
  const auto page = std::find_if(pages_.begin(), pages_.end(),
                                 [&](const Page& each) { return each.path == request.local_uri; });
  Response response;
  if (page == pages_.end()) {
    response = Refuse(404, "there is no such page");
  } else if (method != "GET" && method != "HEAD") {
    response = Refuse(405, "GET and HEAD are allowed here");
    absl::StrAppend(&response.head, "Allow: GET, HEAD\r\n");
  } else {
    response = MakeResponse(*page);
    Compress(connection, response);
  }
  Send(connection, response, method != "HEAD");
  return response.code;
}

}  // namespace latentd::server::process
