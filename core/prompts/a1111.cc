// The syntax of stable-diffusion-webui and Forge. Schedules of prompts, which it has too, are found
// and refused.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "core/base/errors/status_macros.h"
#include "core/prompts/syntaxes.h"
#include "core/tokenizer/unicode.h"

namespace latentd::prompts {
namespace {

constexpr double kBracketFactor = 1.1;

bool IsDigitOrPoint(char c) { return absl::ascii_isdigit(c) || c == '.'; }

// A character's bytes, at most.
constexpr size_t kUtf8Bytes = 4;

bool IsWordBefore(absl::string_view text, size_t at) {
  size_t begin = at;
  while (begin > 0 && at - begin < kUtf8Bytes) {
    --begin;
    if ((static_cast<unsigned char>(text[begin]) & 0xC0) != 0x80) break;
  }
  const std::u32string characters = tokenizer::DecodeUtf8(text.substr(begin, at - begin));
  return !characters.empty() && tokenizer::IsWordCharacter(characters.back());
}

bool IsWordAfter(absl::string_view text, size_t at) {
  const std::u32string characters = tokenizer::DecodeUtf8(text.substr(at, kUtf8Bytes));
  return !characters.empty() && tokenizer::IsWordCharacter(characters.front());
}

// The place of `word` as a word of its own, from `from` on; npos: it is not there.
size_t FindWord(absl::string_view text, absl::string_view word, size_t from = 0) {
  for (size_t at = text.find(word, from); at != text.npos; at = text.find(word, at + 1)) {
    if (!IsWordBefore(text, at) && !IsWordAfter(text, at + word.size())) return at;
  }
  return text.npos;
}

absl::Status RefuseNetworks(absl::string_view text) {
  for (const absl::string_view name : {"<lora:", "<lyco:", "<hypernet:"}) {
    const size_t at = text.find(name);
    if (at == text.npos) continue;
    const absl::string_view rest = text.substr(at);
    return Refused(rest.substr(0, std::min(rest.find('>'), rest.size() - 1) + 1),
                   "prompts load no networks here; leave it out");
  }
  return absl::OkStatus();
}

class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<Piece>> Parse() {
    while (at_ < text_.size()) RETURN_IF_ERROR(ParseNext());
    for (const auto* brackets : {&round_, &square_}) {
      for (const Open& open : *brackets) {
        Multiply(open.piece, brackets == &round_ ? kBracketFactor : 1 / kBracketFactor);
      }
    }
    for (const Piece& piece : pieces_) {
      if (!std::isfinite(static_cast<float>(piece.weight))) {
        return Refused(piece.text, "its weight is larger than any number");
      }
    }
    return Merged();
  }

 private:
  struct Open {
    size_t piece;  // the first one in it
    size_t at;     // in the text
    bool has_bar = false;
  };

  absl::Status ParseNext() {
    switch (text_[at_]) {
      case '\\':
        pieces_.push_back({std::string(Escaped())});
        return absl::OkStatus();
      case '(':
        return OpenBracket(round_);
      case '[':
        return OpenBracket(square_);
      case ')':
        if (round_.empty()) break;
        Multiply(Pop(round_), kBracketFactor);
        ++at_;
        return absl::OkStatus();
      case ']':
        if (square_.empty()) break;
        RETURN_IF_ERROR(RefuseSchedule());
        Multiply(Pop(square_), 1 / kBracketFactor);
        ++at_;
        return absl::OkStatus();
      case ':':
        return ParseColon();
      default:
        break;
    }
    AddText(std::max(text_.find_first_of("\\()[]:", at_), at_ + 1));
    return absl::OkStatus();
  }

  // The character that a backslash is before, if that is a bracket or a backslash; goes on behind.
  absl::string_view Escaped() {
    const absl::string_view next = text_.substr(at_ + 1, 1);
    const bool escapes = !next.empty() && absl::StrContains("()[]\\", next);
    at_ += escapes ? 2 : 1;
    return escapes ? next : absl::string_view();
  }

  absl::Status OpenBracket(std::vector<Open>& brackets) {
    brackets.push_back({pieces_.size(), at_++});
    return round_.size() + square_.size() > kMaxNesting ? NestedTooDeep() : absl::OkStatus();
  }

  static size_t Pop(std::vector<Open>& brackets) {
    const size_t piece = brackets.back().piece;
    brackets.pop_back();
    return piece;
  }

  // ": 1.2 )" is a weight where a round bracket is open.
  absl::Status ParseColon() {
    size_t end = at_ + 1;
    const auto skip = [&](auto belongs) {
      while (end < text_.size() && belongs(text_[end])) ++end;
      return end;
    };
    const size_t begin = skip(absl::ascii_isspace);
    if (end < text_.size() && (text_[end] == '+' || text_[end] == '-')) ++end;
    const size_t digits = end;
    const absl::string_view number = text_.substr(begin, skip(IsDigitOrPoint) - begin);
    const bool has_digits = end > digits;
    skip(absl::ascii_isspace);
    if (!has_digits || round_.empty() || end == text_.size() || text_[end] != ')') {
      AddText(at_ + 1);
      return absl::OkStatus();
    }
    double weight = 0;
    if (!absl::SimpleAtod(number, &weight)) {
      return Refused(text_.substr(at_, end - at_ + 1), "the weight is no number");
    }
    Multiply(Pop(round_), weight);
    at_ = end + 1;
    return absl::OkStatus();
  }

  // REQUIRES: a square bracket is open, and the next character closes it.
  absl::Status RefuseSchedule() const {
    const Open& open = square_.back();
    if (!round_.empty() && round_.back().at > open.at) return absl::OkStatus();
    const absl::string_view whole = text_.substr(open.at, at_ + 1 - open.at);
    if (open.has_bar) {
      return Refused(whole, "it takes another prompt in each step, which is not supported");
    }
    absl::string_view before =
        absl::StripTrailingAsciiWhitespace(text_.substr(open.at, at_ - open.at));
    const size_t length = before.size();
    while (!before.empty() && IsDigitOrPoint(before.back())) before.remove_suffix(1);
    if (before.size() == length) return absl::OkStatus();
    before = absl::StripTrailingAsciiWhitespace(before);
    if (!absl::EndsWith(before, ":") || absl::EndsWith(before, "\\:")) return absl::OkStatus();
    return Refused(whole,
                   "it changes the prompt during the run, which is not supported; a weight is "
                   "written (text:1.2)");
  }

  void AddText(size_t end) {
    if (end > text_.size()) end = text_.size();
    const absl::string_view text = text_.substr(at_, end - at_);
    const size_t innermost = round_.empty() ? 0 : round_.back().at;
    if (!square_.empty() && square_.back().at >= innermost && absl::StrContains(text, '|')) {
      square_.back().has_bar = true;
    }
    AddParts(text);
    at_ = end;
  }

  // Divided by the word BREAK with the spaces around it.
  void AddParts(absl::string_view text) {
    constexpr absl::string_view kBreak = "BREAK";
    bool after_break = false;
    for (size_t at = FindWord(text, kBreak); at != text.npos; at = FindWord(text, kBreak)) {
      const absl::string_view part = absl::StripTrailingAsciiWhitespace(text.substr(0, at));
      pieces_.push_back({std::string(part), 1, after_break});
      text = absl::StripLeadingAsciiWhitespace(text.substr(at + kBreak.size()));
      after_break = true;
    }
    pieces_.push_back({std::string(text), 1, after_break});
  }

  void Multiply(size_t first, double factor) {
    for (size_t i = first; i < pieces_.size(); ++i) pieces_[i].weight *= factor;
  }

  std::vector<Piece> Merged() {
    std::vector<Piece> merged;
    for (Piece& piece : pieces_) {
      const bool joins =
          !merged.empty() && !piece.after_break && merged.back().weight == piece.weight;
      if (joins) {
        merged.back().text += piece.text;
      } else {
        merged.push_back(std::move(piece));
      }
    }
    if (merged.empty()) merged.push_back({});
    return merged;
  }

  const absl::string_view text_;
  size_t at_ = 0;
  std::vector<Piece> pieces_;
  std::vector<Open> round_, square_;
};

}  // namespace

absl::StatusOr<std::vector<Piece>> ParseA1111(absl::string_view text) {
  RETURN_IF_ERROR(RefuseNetworks(text));
  if (const size_t at = FindWord(text, "AND"); at != text.npos) {
    return Refused(text.substr(at), "AND draws several prompts at once, which is not supported");
  }
  return Parser(text).Parse();
}

}  // namespace latentd::prompts
