#include "core/compiler/graph_label.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/text/text.h"

namespace latentd::compiler {
namespace {

using device::DType;

constexpr size_t kMaxName = 32, kMaxPart = 96;

bool IsName(absl::string_view word, size_t most = kMaxName) {
  const auto fits = [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
  };
  return !word.empty() && word.size() <= most && std::all_of(word.begin(), word.end(), fits);
}

bool ReadSize(absl::string_view word, GraphLabel& label) {
  const std::vector<absl::string_view> sides = absl::StrSplit(word, 'x');
  if (sides.size() != 2 && sides.size() != 3) return false;
  return absl::SimpleAtoi(sides[0], &label.width) && absl::SimpleAtoi(sides[1], &label.height) &&
         (sides.size() == 2 || absl::SimpleAtoi(sides[2], &label.frames));
}

}  // namespace

std::string GraphLabel::ToText() const {
  std::string text = absl::StrCat(model, model.empty() ? "" : " ", component);
  if (!part.empty()) absl::StrAppend(&text, " ", part);
  if (width != 0 || height != 0) absl::StrAppend(&text, " ", SizeText(width, height));
  if (frames > 1) absl::StrAppend(&text, "x", frames);
  absl::StrAppend(&text, " rows ", rows, fallback ? " fallback" : "");
  if (dtype != DType::kF32) absl::StrAppend(&text, " ", device::Name(dtype));
  return text;
}

std::optional<GraphLabel> GraphLabel::FromText(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  size_t next = 0;
  const auto take = [&] { return next < words.size() ? words[next++] : absl::string_view(); };
  GraphLabel label;
  label.model = std::string(take());
  label.component = std::string(take());
  absl::string_view word = take();
  if (word != "rows" && !ReadSize(word, label)) {
    label.part = std::string(word);
    word = take();
  }
  if (ReadSize(word, label)) word = take();
  if (word != "rows" || !absl::SimpleAtoi(take(), &label.rows)) return std::nullopt;
  word = take();
  label.fallback = word == "fallback";
  if (label.fallback) word = take();
  if (word == "bf16") label.dtype = DType::kBF16;
  if (word == "f16") label.dtype = DType::kF16;
  if (word == device::Name(DType::kF8E4M3)) label.dtype = DType::kF8E4M3;
  const bool names = IsName(label.model) && IsName(label.component) &&
                     (label.part.empty() || IsName(label.part, kMaxPart));
  if (!names || label.ToText() != text) return std::nullopt;
  return label;
}

}  // namespace latentd::compiler
