// libFuzzer target: a Content-Type in the first line, then any bytes as the body of a form.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "server/http/exchange/multipart.h"

namespace {

using latentd::server::http::Part;

bool IsIn(absl::string_view bytes, absl::string_view body) {
  return bytes.data() >= body.data() && bytes.data() + bytes.size() <= body.data() + body.size();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t line = text.find('\n');
  if (line == text.npos) return 0;
  const absl::string_view type = text.substr(0, line), body = text.substr(line + 1);
  const auto parts = latentd::server::http::ParseMultipart(type, body);
  if (!parts.ok()) return 0;
  if (parts->size() > latentd::server::http::kMostParts) std::abort();
  const char* behind = body.data();
  for (const Part& part : *parts) {
    // In their order, one behind the other.
    if (!IsIn(part.bytes, body) || part.bytes.data() < behind) std::abort();
    behind = part.bytes.data() + part.bytes.size();
    if (part.name.size() > size) std::abort();
    if (!part.is_file && part.bytes.size() > latentd::server::http::kMostTextBytes) std::abort();
  }
  return 0;
}
