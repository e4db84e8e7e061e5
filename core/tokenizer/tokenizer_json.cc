#include "core/tokenizer/tokenizer_json.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/json.h"
#include "core/base/text/text.h"
#include "core/tokenizer/json_field.h"
#include "core/tokenizer/vocabulary.h"

namespace latentd::tokenizer {
namespace {

using ::nlohmann::json;

constexpr char kNormalizer[] = R"(CLIP's normalizer (NFC, Replace \s+ by one space, Lowercase))";
constexpr char kPreTokenizer[] =
    "CLIP's pre-tokenizer (Split by CLIP's pattern, then ByteLevel without add_prefix_space)";

// Since transformers 5 the markers are part of the pattern.
constexpr char kWordPattern[] = R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";
constexpr char kMarkerPattern[] = R"(<\|startoftext\|>|<\|endoftext\|>|)";

// A member of an object, or null.
const json& Member(const json& object, const char* key) {
  static const json& null = *new json();
  if (!object.is_object()) return null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

// The steps of a "Sequence", in which others may be, or the one step that `value` is.
void AppendSteps(const json& value, const char* list, std::vector<json>* steps) {
  if (Member(value, "type") != "Sequence") {
    if (!value.is_null()) steps->push_back(value);
    return;
  }
  for (const json& step : Member(value, list)) AppendSteps(step, list, steps);
}

// True iff `step` has all that `wanted` has; what else it has changes no token.
bool IsStep(const json& step, const json& wanted) {
  for (const auto& [key, value] : wanted.items()) {
    if (Member(step, key.c_str()) != value) return false;
  }
  return true;
}

bool AreSteps(const std::vector<json>& steps, const std::vector<json>& wanted) {
  return std::equal(steps.begin(), steps.end(), wanted.begin(), wanted.end(), IsStep);
}

// "Split \\s+, ByteLevel": of each step the type, and what it looks for.
std::string NamesOf(const std::vector<json>& steps) {
  if (steps.empty()) return "none";
  return absl::StrJoin(steps, ", ", [](std::string* out, const json& step) {
    const json& type = Member(step, "type");
    const json& pattern = Member(Member(step, "pattern"), "Regex");
    absl::StrAppend(out, type.is_string() ? type.get<std::string>() : "something else",
                    pattern.is_string() ? " " + pattern.get<std::string>() : "");
  });
}

absl::Status WrongSteps(const Field& field, const std::vector<json>& steps,
                        absl::string_view needed) {
  return absl::InvalidArgumentError(
      absl::StrCat(field.name, " is ", Excerpt(NamesOf(steps)), "; ", needed, " is needed"));
}

absl::Status CheckNormalizer(const Field& field) {
  const json nfc = {{"type", "NFC"}};
  const json space = {{"type", "Replace"}, {"pattern", {{"Regex", R"(\s+)"}}}, {"content", " "}};
  const json lower = {{"type", "Lowercase"}};
  std::vector<json> steps;
  AppendSteps(field.value, "normalizers", &steps);
  // Tokens are the same without collapsed space.
  if (AreSteps(steps, {nfc, space, lower}) || AreSteps(steps, {nfc, lower})) {
    return absl::OkStatus();
  }
  return WrongSteps(field, steps, kNormalizer);
}

absl::Status CheckPreTokenizer(const Field& field) {
  const auto split = [](const std::string& pattern) {
    return json{{"type", "Split"},
                {"pattern", {{"Regex", pattern}}},
                {"behavior", "Removed"},
                {"invert", true}};
  };
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  std::vector<json> steps;
  AppendSteps(field.value, "pretokenizers", &steps);
  // Without a split: as transformers wrote it before 4.17, and reads it as the others today.
  if (AreSteps(steps, {split(absl::StrCat(kMarkerPattern, kWordPattern)), bytes}) ||
      AreSteps(steps, {split(kWordPattern), bytes}) || AreSteps(steps, {bytes})) {
    return absl::OkStatus();
  }
  return WrongSteps(field, steps, kPreTokenizer);
}

absl::Status CheckModel(const json& model, const std::string& path) {
  const auto field = [&](const char* key) {
    return Field{Member(model, key), absl::StrCat(path, ": model.", key)};
  };
  if (!model.is_object()) return Wrong({model, absl::StrCat(path, ": model")}, "a BPE model");
  const Field type = field("type");
  if (!type.value.is_null() && type.value != "BPE") {
    return Wrong(type, "CLIP's, \"BPE\" with end_of_word_suffix \"</w>\",");
  }
  const Field suffix = field("end_of_word_suffix");
  if (suffix.value != "</w>") return Wrong(suffix, "CLIP's, \"</w>\",");
  const Field prefix = field("continuing_subword_prefix");
  if (!prefix.value.is_null() && prefix.value != "") return Wrong(prefix, "none, as in CLIP,");
  if (!field("vocab").value.is_object())
    return Wrong(field("vocab"), "an object from tokens to ids");
  if (!field("merges").value.is_array()) return Wrong(field("merges"), "a list of pairs of tokens");
  return absl::OkStatus();
}

// "direction" of "padding" or "truncation", as tokenizer_config.json would write it.
json SideOf(const json& how) {
  const json& direction = Member(how, "direction");
  return direction.is_string() ? json(absl::AsciiStrToLower(direction.get<std::string>()))
                               : direction;
}

}  // namespace

absl::StatusOr<TokenizerJson> ParseTokenizerJson(absl::string_view text, const std::string& path) {
  ASSIGN_OR_RETURN(json file, ParseJsonObject(text, path, kMaxFileBytes));
  RETURN_IF_ERROR(CheckModel(Member(file, "model"), path));
  RETURN_IF_ERROR(
      CheckNormalizer({Member(file, "normalizer"), absl::StrCat(path, ": normalizer")}));
  RETURN_IF_ERROR(
      CheckPreTokenizer({Member(file, "pre_tokenizer"), absl::StrCat(path, ": pre_tokenizer")}));
  TokenizerJson result{.path = path,
                       .padding_side = SideOf(Member(file, "padding")),
                       .truncation_side = SideOf(Member(file, "truncation"))};
  result.vocabulary = std::move(file["model"]["vocab"]);
  result.merges = std::move(file["model"]["merges"]);
  result.added_tokens = json::array();
  const json& added = Member(file, "added_tokens");
  if (!added.is_null() && !added.is_array()) {
    return Wrong({added, absl::StrCat(path, ": added_tokens")}, "a list of tokens");
  }
  if (added.is_array()) result.added_tokens = std::move(file["added_tokens"]);
  return result;
}

}  // namespace latentd::tokenizer
