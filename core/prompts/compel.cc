// The basic syntax of Compel, of which its operators with names are refused.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "core/base/errors/status_macros.h"
#include "core/prompts/syntaxes.h"

namespace latentd::prompts {
namespace {

constexpr double kPlus = 1.1, kMinus = 0.9;
constexpr absl::string_view kSyntactic = "()\",.+-=";

// A text, or nodes that have a weight together.
struct Node {
  std::string text;
  double weight = 1;
  std::vector<Node> nodes;
};

bool IsSyntactic(char c) { return absl::StrContains(kSyntactic, c); }

// Twice, as Compel does: once for each of its two passes.
std::string Unescaped(absl::string_view text) {
  const auto once = [](absl::string_view escaped) {
    return absl::StrReplaceAll(escaped, {{"\\(", "("}, {"\\)", ")"}, {"\\\"", "\""}});
  };
  return once(once(text));
}

// Reads from left to right. What cannot be read leaves `at_` where it was.
class Reader {
 public:
  Reader(absl::string_view text, int depth)
      : text_(text), depth_(depth), failed_(text.size(), false) {}

  // A whole prompt: any run up to a space is text, where it is nothing else.
  std::vector<Node> ReadPrompt() {
    std::vector<Node> nodes;
    while (SkipSpaces()) {
      if (ReadWeighted(nodes)) continue;
      const size_t begin = at_;
      while (!AtEnd() && !absl::ascii_isspace(text_[at_])) ++at_;
      nodes.push_back({Unescaped(text_.substr(begin, at_ - begin))});
    }
    return nodes;
  }

  bool too_deep() const { return too_deep_; }

 private:
  bool AtEnd() const { return at_ == text_.size(); }
  // True if there is something behind.
  bool SkipSpaces() {
    while (!AtEnd() && absl::ascii_isspace(text_[at_])) ++at_;
    return !AtEnd();
  }
  size_t CountOf(char c) const {
    return std::min(text_.find_first_not_of(c, at_), text_.size()) - at_;
  }

  // The inside of brackets or quotes.
  bool ReadItems(std::vector<Node>& nodes) {
    while (SkipSpaces()) {
      if (ReadWeighted(nodes)) continue;
      if (std::optional<Node> word = ReadWord()) {
        nodes.push_back(*std::move(word));
      } else if (text_[at_] == ',' || text_[at_] == '.') {
        nodes.push_back({std::string(1, text_[at_++])});
      } else {
        break;
      }
    }
    return AtEnd();
  }

  // Brackets, or quotes.
  bool ReadGroup(std::vector<Node>& nodes) {
    if (AtEnd() || failed_[at_]) return false;
    const size_t begin = at_;
    if (text_[at_] == '(' ? ReadBrackets(nodes) : text_[at_] == '"' && ReadQuotes(nodes)) {
      return true;
    }
    at_ = begin;
    failed_[at_] = true;
    return false;
  }

  bool ReadBrackets(std::vector<Node>& nodes) {
    if (depth_ == kMaxNesting) too_deep_ = true;
    if (too_deep_) return false;
    ++at_;
    ++depth_;
    std::vector<Node> inside;
    ReadItems(inside);
    --depth_;
    if (AtEnd() || text_[at_] != ')') return false;
    ++at_;
    std::move(inside.begin(), inside.end(), std::back_inserter(nodes));
    return true;
  }

  // In one line. A quote after a backslash is text, unless no other one closes.
  bool ReadQuotes(std::vector<Node>& nodes) {
    size_t end = text_.npos;
    for (size_t i = at_ + 1; i < text_.size() && text_[i] != '\n' && text_[i] != '\r'; ++i) {
      if (text_[i] != '"') continue;
      end = i;
      if (text_[i - 1] != '\\') break;
    }
    if (end == text_.npos) return false;
    Reader inside(text_.substr(at_ + 1, end - at_ - 1), depth_);
    std::vector<Node> items;
    const bool reads = inside.ReadItems(items);
    too_deep_ = too_deep_ || inside.too_deep_;
    if (!reads) return false;
    if (items.empty()) items.push_back({});
    std::move(items.begin(), items.end(), std::back_inserter(nodes));
    at_ = end + 1;
    return true;
  }

  // A run without a character that means something.
  std::optional<Node> ReadWord() {
    const size_t begin = at_;
    while (!AtEnd() && !absl::ascii_isspace(text_[at_])) {
      const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : ' ';
      const bool is_sign = text_[at_] == '+' || text_[at_] == '-';
      if (text_[at_] == '\\' && IsSyntactic(next)) {
        at_ += 2;
      } else if (!IsSyntactic(text_[at_]) ||
                 (is_sign && !absl::ascii_isspace(next) && !IsSyntactic(next))) {
        ++at_;
      } else {
        break;
      }
    }
    if (at_ == begin) return std::nullopt;
    return Node{Unescaped(text_.substr(begin, at_ - begin))};
  }

  // A group, or a word with its weight behind it. The group is read once, weighted or not, so that
  // nested ones take no longer than others.
  bool ReadWeighted(std::vector<Node>& nodes) {
    const size_t begin = at_;
    Node weighted;
    std::optional<double> weight;
    if (ReadGroup(weighted.nodes)) {
      weight = ReadSigns();
      if (!weight) weight = ReadNumber();
      if (!weight) weight = 1;
    } else if (std::optional<Node> word = ReadWord()) {
      weighted.nodes.push_back(*std::move(word));
      weight = ReadSigns();
    }
    if (!weight) {
      at_ = begin;
      return false;
    }
    weighted.weight = *weight;
    if (!weighted.nodes.empty()) nodes.push_back(std::move(weighted));
    return true;
  }

  std::optional<double> ReadSigns() {
    for (const auto& [sign, base] : {std::pair{'+', kPlus}, {'-', kMinus}}) {
      const size_t count = CountOf(sign);
      if (count == 0) continue;
      at_ += count;
      return std::pow(base, static_cast<double>(count));
    }
    return std::nullopt;
  }

  // Digits, with a point or without one.
  std::optional<double> ReadNumber() {
    size_t end = at_;
    bool point = false;
    for (; end < text_.size(); ++end) {
      if (text_[end] == '.' && !std::exchange(point, true)) continue;
      if (!absl::ascii_isdigit(text_[end])) break;
    }
    double number = 0;
    if (!absl::SimpleAtod(text_.substr(at_, end - at_), &number)) return std::nullopt;
    at_ = end;
    return number;
  }

  const absl::string_view text_;
  int depth_;
  std::vector<bool> failed_;  // by place: no group begins there
  bool too_deep_ = false;
  size_t at_ = 0;
};

// Neighbours of one weight with a space between them.
void Flatten(const std::vector<Node>& nodes, double scale, std::vector<Piece>& pieces) {
  for (const Node& node : nodes) {
    if (!node.nodes.empty()) {
      Flatten(node.nodes, scale * node.weight, pieces);
    } else if (!pieces.empty() && pieces.back().weight == scale) {
      absl::StrAppend(&pieces.back().text, " ", node.text);
    } else {
      pieces.push_back({node.text, scale});
    }
  }
}

// A space behind each comma, as Compel begins.
std::string SpacedCommas(absl::string_view text) {
  std::string spaced;
  for (size_t i = 0; i < text.size(); ++i) {
    spaced.push_back(text[i]);
    if (text[i] != ',' || i + 1 == text.size() || absl::ascii_isspace(text[i + 1])) continue;
    spaced.push_back(' ');
    spaced.push_back(text[++i]);
  }
  return spaced;
}

absl::Status RefuseOperators(absl::string_view text) {
  for (const absl::string_view name :
       {".blend(", ".and(", ".add(", ".swap(", ".attend(", "withLora(", "useLora("}) {
    if (!absl::StrContains(text, name)) continue;
    return Refused(name, "of Compel's syntax weights alone are supported: word+, (some words)1.2");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Piece>> ParseCompel(absl::string_view text) {
  RETURN_IF_ERROR(RefuseOperators(text));
  const std::string spaced = SpacedCommas(text);
  Reader reader(spaced, /*depth=*/0);
  const std::vector<Node> nodes = reader.ReadPrompt();
  if (reader.too_deep()) return NestedTooDeep();
  std::vector<Piece> pieces;
  Flatten(nodes, 1, pieces);
  for (const Piece& piece : pieces) {
    if (std::isfinite(static_cast<float>(piece.weight))) continue;
    return Refused(piece.text, "its weight is larger than any number");
  }
  if (pieces.empty()) pieces.push_back({});
  return pieces;
}

}  // namespace latentd::prompts
