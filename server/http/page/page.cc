#include "server/http/page/page.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace latentd::server::http {
namespace {

// Scripts and styles are files of this server alone, and nothing of the page's goes elsewhere; its
// scripts cannot make elements of text.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

std::string TypeOf(absl::string_view name) {
  if (absl::EndsWith(name, ".html")) return "text/html; charset=utf-8";
  if (absl::EndsWith(name, ".css")) return "text/css; charset=utf-8";
  return "text/javascript; charset=utf-8";
}

}  // namespace

std::string PathOf(const PageFile& file) {
  return file.name == "index.html" ? "/" : absl::StrCat("/page/", file.name);
}

const PageFile* FindPageFile(absl::string_view path) {
  for (const PageFile& file : PageFiles()) {
    if (PathOf(file) == path) return &file;
  }
  return nullptr;
}

Answer ShowPageFile(const PageFile& file, const Request& request) {
  const std::string tag = absl::StrCat("\"", file.digest, "\"");
  Answer answer = {.content_type = TypeOf(file.name),
                   .headers = {{"Cache-Control", "no-cache"},
                               {"ETag", tag},
                               {"Content-Security-Policy", kPolicy},
                               {"Cross-Origin-Opener-Policy", "same-origin"},
                               {"Cross-Origin-Resource-Policy", "same-origin"},
                               {"Referrer-Policy", "no-referrer"}}};
  if (absl::StrContains(request.Find("if-none-match"), tag)) {
    answer.code = 304;
  } else {
    answer.body.AddBytes(file.text, nullptr);
  }
  return answer;
}

}  // namespace latentd::server::http
