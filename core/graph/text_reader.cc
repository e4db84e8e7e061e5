#include "core/graph/text_reader.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/text/text.h"

namespace latentd::graph {

void TextReader::SkipSpace() {
  while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) {
    ++position_;
  }
}

bool TextReader::AtEnd() {
  SkipSpace();
  return position_ == text_.size();
}

bool TextReader::Take(absl::string_view token) {
  SkipSpace();
  if (!absl::StartsWith(text_.substr(position_), token)) return false;
  position_ += token.size();
  return true;
}

absl::Status TextReader::Expect(absl::string_view token) {
  return Take(token) ? absl::OkStatus() : Expected(absl::StrCat("\"", token, "\""));
}

absl::string_view TextReader::Word() {
  SkipSpace();
  size_t end = position_;
  while (end < text_.size() && (absl::ascii_isalnum(text_[end]) || text_[end] == '_')) ++end;
  const absl::string_view word = text_.substr(position_, end - position_);
  position_ = end;
  return word;
}

absl::StatusOr<std::string> TextReader::Quoted() {
  if (!Take("\"")) return Expected("a quoted name");
  const size_t end = text_.find('"', position_);
  if (end == absl::string_view::npos) return Expected("a closing quote");
  std::string quoted(text_.substr(position_, end - position_));
  position_ = end + 1;
  return quoted;
}

int TextReader::line() const {
  return 1 + static_cast<int>(std::count(text_.begin(), text_.begin() + position_, '\n'));
}

absl::Status TextReader::Expected(absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat("graph text, line ", line(), ": expected ", what,
                                                 ", found \"", Excerpt(text_.substr(position_)),
                                                 "\""));
}

}  // namespace latentd::graph
