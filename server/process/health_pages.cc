#include "server/process/health_pages.h"

#include <civetweb.h>

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/out_of_memory.h"

namespace latentd::server::process {
namespace {

constexpr char kAlivePath[] = "/healthz";
constexpr char kReadyPath[] = "/readyz";

void Answer(mg_connection* connection, bool with_body, absl::string_view status,
            absl::string_view line) {
  const std::string body = absl::StrCat(line, "\n");
  const std::string head = absl::StrCat(
      "HTTP/1.1 ", status,
      "\r\nContent-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\nContent-Length: ",
      body.size(), "\r\nConnection: close\r\n\r\n");
  mg_write(connection, head.data(), head.size());
  if (with_body) mg_write(connection, body.data(), body.size());
}

// The status code, for the library.
int AnswerHealth(mg_connection* connection, const std::string& why_not) {
  const absl::string_view method = mg_get_request_info(connection)->request_method;
  if (method != "GET" && method != "HEAD") {
    mg_send_http_error(connection, 405, "%s", "GET and HEAD are allowed here");
    return 405;
  }
  if (why_not.empty()) {
    Answer(connection, method == "GET", "200 OK", "ok");
    return 200;
  }
  Answer(connection, method == "GET", "503 Service Unavailable", why_not);
  return 503;
}

// The library also asks for what begins with the path and a slash; 0: there is no such page.
int Handle(mg_connection* connection, absl::string_view path,
           absl::FunctionRef<std::string()> why_not) {
  if (path != mg_get_request_info(connection)->local_uri) return 0;
  int code = 503;
  const absl::Status answered = CatchOutOfMemory([&] {
    code = AnswerHealth(connection, why_not());
    return absl::OkStatus();
  });
  if (!answered.ok()) mg_send_http_error(connection, code, "%s", "out of memory");
  return code;
}

int HandleAlive(mg_connection* connection, void* health) {
  return Handle(connection, kAlivePath,
                [health] { return static_cast<const Health*>(health)->WhyNotAlive(); });
}

int HandleReady(mg_connection* connection, void* health) {
  return Handle(connection, kReadyPath,
                [health] { return static_cast<const Health*>(health)->WhyNotReady(); });
}

}  // namespace

void AddHealthPages(mg_context& web_server, const Health& health) {
  void* const data = const_cast<Health*>(&health);  // as handlers take it
  mg_set_request_handler(&web_server, kAlivePath, &HandleAlive, data);
  mg_set_request_handler(&web_server, kReadyPath, &HandleReady, data);
}

}  // namespace latentd::server::process
