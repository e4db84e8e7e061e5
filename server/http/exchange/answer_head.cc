#include "server/http/exchange/answer_head.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/http/exchange/http_status.h"

namespace latentd::server::http {
namespace {

void AddLine(absl::string_view name, absl::string_view value, std::string& head) {
  absl::StrAppend(&head, name, ": ", absl::StrReplaceAll(value, {{"\r", ""}, {"\n", ""}}), "\r\n");
}

bool Says(const Answer& answer, absl::string_view name) {
  for (const Header& header : answer.headers) {
    if (absl::EqualsIgnoreCase(header.first, name)) return true;
  }
  return false;
}

}  // namespace

std::string HeadOf(const Answer& answer, const Framing& framing, absl::Time now) {
  std::string head = absl::StrCat("HTTP/1.1 ", answer.code, " ", PhraseOf(answer.code), "\r\n");
  AddLine("Date", absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", now, absl::UTCTimeZone()), head);
  if (!answer.content_type.empty()) AddLine("Content-Type", answer.content_type, head);
  constexpr int kNoContent = 204, kNotModified = 304;  // never have a length
  if (framing.length && answer.code != kNoContent && answer.code != kNotModified) {
    AddLine("Content-Length", absl::StrCat(*framing.length), head);
  } else if (!framing.length && framing.chunked) {
    AddLine("Transfer-Encoding", "chunked", head);
  }
  if (!framing.request_id.empty()) AddLine("x-request-id", framing.request_id, head);
  for (const Header& header : answer.headers) AddLine(header.first, header.second, head);
  if (!Says(answer, "Cache-Control")) AddLine("Cache-Control", "no-store", head);
  AddLine("X-Content-Type-Options", "nosniff", head);
  AddLine("Connection", framing.keep_alive ? "keep-alive" : "close", head);
  return absl::StrCat(head, "\r\n");
}

std::string FrameOf(absl::string_view bytes, bool chunked, bool last) {
  if (!chunked) return std::string(bytes);
  std::string frame;
  if (!bytes.empty()) frame = absl::StrCat(absl::Hex(bytes.size()), "\r\n", bytes, "\r\n");
  if (last) frame += "0\r\n\r\n";
  return frame;
}

}  // namespace latentd::server::http
