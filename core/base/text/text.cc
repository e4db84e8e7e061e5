#include "core/base/text/text.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace latentd {

std::string Excerpt(absl::string_view input, size_t max_bytes) {
  std::string text = absl::CHexEscape(input.substr(0, max_bytes));
  absl::StrReplaceAll({{"\\\"", "\""}, {"\\'", "'"}, {"\\\\", "\\"}}, &text);
  return absl::StrCat(text, input.size() > max_bytes ? "..." : "");
}

std::string ListSome(absl::Span<const std::string> items, size_t most,
                     absl::string_view separator) {
  std::string text = absl::StrJoin(items.subspan(0, most), separator);
  if (items.size() > most) {
    absl::StrAppend(&text, separator, "and ", items.size() - most, " more");
  }
  return text;
}

std::string SizeText(int64_t width, int64_t height) { return absl::StrCat(width, "x", height); }

}  // namespace latentd
