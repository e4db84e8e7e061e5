#include "server/http/exchange/multipart.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"

namespace latentd::server::http {
namespace {

constexpr absl::string_view kLineEnd = "\r\n";
constexpr size_t kMostBoundaryBytes = 70;  // RFC 2046
constexpr size_t kMostPartHeadBytes = 8 << 10;

absl::Status MalformedForm(absl::string_view why) {
  return WithReason(
      absl::InvalidArgumentError(absl::StrCat("the body is no multipart/form-data: ", why)),
      "MALFORMED");
}

// A quoted string's text from behind its quotation mark on, which ends before the next one that no
// backslash escapes; `rest` is what follows. Browsers escape a quotation mark as %22.
std::string TakeQuoted(absl::string_view& rest) {
  std::string text;
  while (!rest.empty() && rest.front() != '"') {
    if (rest.front() == '\\' && rest.size() > 1) rest.remove_prefix(1);
    text.push_back(rest.front());
    rest.remove_prefix(1);
  }
  if (!rest.empty()) rest.remove_prefix(1);
  return text;
}

std::string TakeValue(absl::string_view& rest) {
  if (absl::ConsumePrefix(&rest, "\"")) return TakeQuoted(rest);
  const size_t end = std::min(rest.find(';'), rest.size());
  const absl::string_view value = absl::StripAsciiWhitespace(rest.substr(0, end));
  rest.remove_prefix(end);
  return std::string(value);
}

// Sets `value` to the parameter of that name in "form-data; name=\"image\"; filename=x". False:
// there is none.
bool FindParameter(absl::string_view header, absl::string_view name, std::string& value) {
  for (size_t at = header.find(';'); at != absl::string_view::npos; at = header.find(';')) {
    header.remove_prefix(at + 1);
    const size_t equals = header.find('=');
    if (equals == absl::string_view::npos) return false;
    const absl::string_view key = absl::StripAsciiWhitespace(header.substr(0, equals));
    header.remove_prefix(equals + 1);
    std::string found = TakeValue(header);
    if (!absl::EqualsIgnoreCase(key, name)) continue;
    value = std::move(found);
    return true;
  }
  return false;
}

// The value of Content-Disposition among a part's lines.
absl::string_view DispositionOf(absl::string_view head) {
  constexpr absl::string_view kName = "content-disposition:";
  while (!head.empty()) {
    const size_t end = std::min(head.find(kLineEnd), head.size());
    const absl::string_view line = head.substr(0, end);
    if (absl::StartsWithIgnoreCase(line, kName)) return line.substr(kName.size());
    head.remove_prefix(std::min(end + kLineEnd.size(), head.size()));
  }
  return "";
}

absl::StatusOr<Part> ReadPart(absl::string_view text) {
  constexpr absl::string_view kHeadEnd = "\r\n\r\n";
  const size_t end = text.substr(0, kMostPartHeadBytes).find(kHeadEnd);
  if (end == absl::string_view::npos) return MalformedForm("a part has no head");
  const absl::string_view disposition = DispositionOf(text.substr(0, end));
  Part part;
  if (!FindParameter(disposition, "name", part.name)) return MalformedForm("a part has no name");
  std::string file_name;
  part.is_file = FindParameter(disposition, "filename", file_name) ||
                 FindParameter(disposition, "filename*", file_name);
  part.bytes = text.substr(end + kHeadEnd.size());
  if (!part.is_file && part.bytes.size() > kMostTextBytes) {
    return MalformedForm(absl::StrCat("the text of a part has more than ", kMostTextBytes,
                                      " bytes; pictures are files, with a filename"));
  }
  return part;
}

// "--BOUNDARY"
absl::StatusOr<std::string> DelimiterOf(absl::string_view content_type) {
  std::string boundary;
  if (!FindParameter(content_type, "boundary", boundary) || boundary.empty() ||
      boundary.size() > kMostBoundaryBytes) {
    return MalformedForm("Content-Type names no boundary");
  }
  return absl::StrCat("--", boundary);
}

// Moves `body` behind the first delimiter, which is at its beginning or at that of a line.
bool SkipPreamble(absl::string_view& body, const std::string& delimiter) {
  if (absl::ConsumePrefix(&body, delimiter)) return true;
  const std::string line = absl::StrCat(kLineEnd, delimiter);
  const size_t first = body.find(line);
  if (first == absl::string_view::npos) return false;
  body.remove_prefix(first + line.size());
  return true;
}

}  // namespace

bool IsMultipart(absl::string_view content_type) {
  const absl::string_view type = content_type.substr(0, content_type.find(';'));
  return absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(type), "multipart/form-data");
}

absl::StatusOr<std::vector<Part>> ParseMultipart(absl::string_view content_type,
                                                 absl::string_view body) {
  ASSIGN_OR_RETURN(const std::string delimiter, DelimiterOf(content_type));
  const std::string between = absl::StrCat(kLineEnd, delimiter);
  if (!SkipPreamble(body, delimiter)) return MalformedForm("its boundary is not in it");
  std::vector<Part> parts;
  while (!absl::StartsWith(body, "--")) {
    if (!absl::ConsumePrefix(&body, kLineEnd)) return MalformedForm("a boundary ends no line");
    const size_t end = body.find(between);
    if (end == absl::string_view::npos) return MalformedForm("it does not end with its boundary");
    if (parts.size() == kMostParts) {
      return MalformedForm(absl::StrCat("it has more than ", kMostParts, " parts"));
    }
    ASSIGN_OR_RETURN(Part part, ReadPart(body.substr(0, end)));
    parts.push_back(std::move(part));
    body.remove_prefix(end + between.size());
  }
  return parts;
}

}  // namespace latentd::server::http
