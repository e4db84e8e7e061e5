// libFuzzer target: any bytes as a picture in a text: base64, or a data URL.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "server/http/request/picture_text.h"

namespace {

namespace http = ::latentd::server::http;

void CheckReads(const std::string& text, absl::string_view bytes) {
  const auto again = http::PictureOf(text);
  if (!again.ok() || *again != bytes) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  // The bytes themselves come back, in either alphabet and as a URL.
  CheckReads(absl::Base64Escape(text), text);
  CheckReads(absl::WebSafeBase64Escape(text), text);
  CheckReads("data:image/png;base64," + absl::Base64Escape(text), text);
  const auto bytes = http::PictureOf(text);
  if (!bytes.ok()) return 0;
  if (bytes->size() > size) std::abort();
  CheckReads(absl::Base64Escape(*bytes), *bytes);
  return 0;
}
