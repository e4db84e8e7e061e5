// The syntax of ComfyUI.
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "core/base/errors/status_macros.h"
#include "core/prompts/syntaxes.h"

namespace latentd::prompts {
namespace {

constexpr double kBracketFactor = 1.1;

// Placeholders for brackets that are text, while the others are looked for.
constexpr absl::string_view kRound = {"\0\2", 2}, kRoundEnd = {"\0\1", 2};

// Parts that stand in brackets, with these, and those between. A bracket that closes none counts as
// one less open, as in the original.
std::vector<absl::string_view> Parts(absl::string_view text) {
  std::vector<absl::string_view> parts;
  size_t begin = 0;
  int64_t open = 0;
  const auto cut = [&](size_t end) {
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end;
  };
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '(' && open++ == 0) cut(at);
    if (text[at] == ')' && --open == 0) cut(at + 1);
  }
  cut(text.size());
  return parts;
}

// The inside of brackets, and its weight.
struct Inside {
  absl::string_view text;
  double weight;
};

absl::StatusOr<Inside> Weigh(absl::string_view text, double around) {
  const size_t colon = text.rfind(':');
  if (colon == text.npos || colon == 0) return Inside{text, around * kBracketFactor};
  double weight = 0;
  const absl::string_view number = absl::StripAsciiWhitespace(text.substr(colon + 1));
  if (!absl::SimpleAtod(number, &weight)) return Inside{text, around * kBracketFactor};
  if (!std::isfinite(static_cast<float>(weight))) {
    return Refused(text.substr(colon), "the weight is no finite number");
  }
  return Inside{text.substr(0, colon), weight};
}

absl::Status Collect(absl::string_view text, double weight, int depth, std::vector<Piece>& pieces) {
  if (depth > kMaxNesting) return NestedTooDeep();
  for (const absl::string_view part : Parts(text)) {
    if (part.size() >= 2 && part.front() == '(' && part.back() == ')') {
      ASSIGN_OR_RETURN(const Inside inside, Weigh(part.substr(1, part.size() - 2), weight));
      RETURN_IF_ERROR(Collect(inside.text, inside.weight, depth + 1, pieces));
    } else {
      pieces.push_back({absl::StrReplaceAll(part, {{kRound, "("}, {kRoundEnd, ")"}}), weight});
    }
  }
  return absl::OkStatus();
}

absl::Status RefuseInversions(absl::string_view text) {
  constexpr absl::string_view kName = "embedding:";
  for (size_t at = text.find(kName); at != text.npos; at = text.find(kName, at + 1)) {
    if (at > 0 && !absl::StrContains(" \n(", text[at - 1])) continue;
    return Refused(text.substr(at, text.find_first_of(" \n:),", at + kName.size()) - at),
                   "textual inversions are words by themselves, without embedding:");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Piece>> ParseComfyUi(absl::string_view text) {
  RETURN_IF_ERROR(RefuseInversions(text));
  const std::string escaped = absl::StrReplaceAll(text, {{"\\)", kRoundEnd}, {"\\(", kRound}});
  std::vector<Piece> pieces;
  RETURN_IF_ERROR(Collect(escaped, 1, 0, pieces));
  if (pieces.empty()) pieces.push_back({});
  return pieces;
}

}  // namespace latentd::prompts
