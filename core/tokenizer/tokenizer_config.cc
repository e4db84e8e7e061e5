#include "core/tokenizer/tokenizer_config.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/json.h"
#include "core/base/text/text.h"
#include "core/tokenizer/json_field.h"
#include "core/tokenizer/vocabulary.h"

namespace latentd::tokenizer {
namespace {

using ::nlohmann::json;

// In the order in which transformers adds them.
constexpr const char* kNamedTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};

// Reads a file that may be missing, which counts as an empty object.
absl::StatusOr<json> ReadOptionalJsonObject(const std::string& path, const FileReader& read) {
  absl::StatusOr<json> value = ReadJsonObject(path, kMaxFileBytes, read);
  if (absl::IsNotFound(value.status())) return json::object();
  return value;
}

// A token is written as a string, or as an object with "content" and flags.
absl::StatusOr<AddedToken> ParseToken(const Field& field, bool special) {
  AddedToken token{.special = special};
  if (field.value.is_string()) {
    token.content = field.value.get<std::string>();
  } else {
    const auto content = field.value.is_object() ? field.value.find("content") : field.value.end();
    if (!field.value.is_object() || content == field.value.end() || !content->is_string()) {
      return Wrong(field, "a string, or an object with the string \"content\",");
    }
    token.content = content->get<std::string>();
    ASSIGN_OR_RETURN(token.normalized, GetBool(field, "normalized", !special));
    ASSIGN_OR_RETURN(token.single_word, GetBool(field, "single_word", false));
  }
  if (token.content.empty()) return Wrong(field, "a token that is not empty");
  return token;
}

// Reads the files and what they say into `config`, field by field.
class ConfigReader {
 public:
  ConfigReader(const std::string& directory, const TokenizerJson* whole, const FileReader& read)
      : whole_(whole),
        read_(read),
        config_path_(absl::StrCat(directory, "/tokenizer_config.json")),
        map_path_(absl::StrCat(directory, "/special_tokens_map.json")),
        added_path_(absl::StrCat(directory, "/added_tokens.json")) {}

  absl::StatusOr<TokenizerConfig> Read(int max_length_limit) {
    ASSIGN_OR_RETURN(fields_, ReadOptionalJsonObject(config_path_, read_));
    if (fields_.contains("added_tokens_decoder")) {
      RETURN_IF_ERROR(ReadAddedTokensDecoder());
    } else {
      RETURN_IF_ERROR(MergeSpecialTokensMap());
    }
    RETURN_IF_ERROR(ReadNamedTokens());
    RETURN_IF_ERROR(ReadExtraTokens());
    if (!fields_.contains("added_tokens_decoder")) RETURN_IF_ERROR(ReadAddedTokensFiles());
    config_.added_tokens = std::move(listed_);
    std::move(special_.begin(), special_.end(), std::back_inserter(config_.added_tokens));
    RETURN_IF_ERROR(ReadSides());
    ASSIGN_OR_RETURN(config_.split_special_tokens,
                     GetBool({fields_, config_path_}, "split_special_tokens", false));
    RETURN_IF_ERROR(ReadMaxLength(max_length_limit));
    return std::move(config_);
  }

 private:
  Field FieldOf(const std::string& key) const {
    const auto from = origin_.find(key);
    return {fields_[key],
            absl::StrCat(from == origin_.end() ? config_path_ : from->second, ": ", key)};
  }

  bool Has(const std::string& key) const {
    return fields_.contains(key) && !fields_[key].is_null();
  }

  absl::Status ReadAddedTokensDecoder() {
    const Field decoder = FieldOf("added_tokens_decoder");
    if (!decoder.value.is_object()) return Wrong(decoder, "an object from ids to tokens");
    std::map<int64_t, AddedToken> by_id;
    for (const auto& [key, value] : decoder.value.items()) {
      const Field field{value, absl::StrCat(decoder.name, "[", Excerpt(key), "]")};
      int64_t id = 0;
      if (!absl::SimpleAtoi(key, &id)) return Wrong(field, "a number as the key");
      if (!value.is_object()) return Wrong(field, "an object");
      ASSIGN_OR_RETURN(const bool special, GetBool(field, "special", false));
      ASSIGN_OR_RETURN(by_id[id], ParseToken(field, special));
    }
    AppendListed(by_id);
    return absl::OkStatus();
  }

  // tokenizer.json wins where both files have a token of the same id.
  absl::Status ReadAddedTokensFiles() {
    std::map<int64_t, AddedToken> by_id;
    RETURN_IF_ERROR(ReadAddedTokensFile(by_id));
    if (whole_ != nullptr) RETURN_IF_ERROR(ReadAddedTokensOf(*whole_, by_id));
    for (auto& [id, token] : by_id) token.special = token.special || IsSpecial(token.content);
    AppendListed(by_id);
    std::erase_if(special_, [&](const AddedToken& token) { return IsListed(token.content); });
    return absl::OkStatus();
  }

  absl::Status ReadAddedTokensFile(std::map<int64_t, AddedToken>& by_id) const {
    ASSIGN_OR_RETURN(const json tokens, ReadOptionalJsonObject(added_path_, read_));
    for (const auto& [content, id] : tokens.items()) {
      const Field field{id, absl::StrCat(added_path_, ": \"", Excerpt(content), "\"")};
      if (!id.is_number_unsigned()) return Wrong(field, "an id");
      by_id[id.get<int64_t>()] = {.content = content, .normalized = !IsSpecial(content)};
    }
    return absl::OkStatus();
  }

  static absl::Status ReadAddedTokensOf(const TokenizerJson& whole,
                                        std::map<int64_t, AddedToken>& by_id) {
    size_t index = 0;
    for (const json& value : whole.added_tokens) {
      const Field field{value, absl::StrCat(whole.path, ": added_tokens[", index++, "]")};
      const auto id = value.is_object() ? value.find("id") : value.end();
      if (id == value.end() || !id->is_number_unsigned()) return Wrong(field, "a token with an id");
      ASSIGN_OR_RETURN(const bool special, GetBool(field, "special", false));
      ASSIGN_OR_RETURN(by_id[id->get<int64_t>()], ParseToken(field, special));
    }
    return absl::OkStatus();
  }

  bool IsSpecial(absl::string_view content) const {
    return std::any_of(special_.begin(), special_.end(),
                       [&](const AddedToken& token) { return token.content == content; });
  }

  void AppendListed(std::map<int64_t, AddedToken>& by_id) {
    for (auto& [id, token] : by_id) {
      token.may_be_new = true;
      listed_.push_back(std::move(token));
    }
  }

  bool IsListed(absl::string_view content) const {
    return std::any_of(listed_.begin(), listed_.end(),
                       [&](const AddedToken& token) { return token.content == content; });
  }

  absl::Status MergeSpecialTokensMap() {
    ASSIGN_OR_RETURN(json map, ReadOptionalJsonObject(map_path_, read_));
    for (auto& [key, value] : map.items()) {
      json& field = fields_[key];
      if (key == "extra_special_tokens" && field.is_array() && value.is_array()) {
        field.insert(field.end(), value.begin(), value.end());
      } else {
        field = std::move(value);
      }
      origin_[key] = map_path_;
    }
    return absl::OkStatus();
  }

  // Marks a listed token as special, or adds it.
  void AddSpecial(const AddedToken& token) {
    bool listed = false;
    for (AddedToken& other : listed_) {
      if (other.content != token.content) continue;
      other.special = true;
      listed = true;
    }
    if (!listed) special_.push_back(token);
  }

  absl::Status ReadNamedTokens() {
    const std::map<std::string, std::string*> kept = {{"bos_token", &config_.start_token},
                                                      {"eos_token", &config_.end_token},
                                                      {"unk_token", &config_.unknown_token},
                                                      {"pad_token", &config_.pad_token}};
    for (const char* name : kNamedTokens) {
      const auto target = kept.find(name);
      AddedToken token{.special = true};
      if (Has(name)) {
        ASSIGN_OR_RETURN(token, ParseToken(FieldOf(name), /*special=*/true));
        if (target != kept.end()) *target->second = token.content;
      } else if (target != kept.end()) {
        token.content = *target->second;
      } else {
        continue;
      }
      AddSpecial(token);
    }
    return absl::OkStatus();
  }

  absl::Status ReadExtraTokens() {
    const char* key =
        Has("extra_special_tokens") ? "extra_special_tokens" : "additional_special_tokens";
    if (!Has(key)) return absl::OkStatus();
    const Field list = FieldOf(key);
    if (!list.value.is_structured()) return Wrong(list, "a list of tokens");
    for (const json& value : list.value) {
      ASSIGN_OR_RETURN(AddedToken token, ParseToken({value, list.name}, /*special=*/true));
      token.may_be_new = true;
      AddSpecial(token);
    }
    return absl::OkStatus();
  }

  absl::Status ReadSides() {
    if (whole_ != nullptr) {
      SetUnlessGiven("padding_side", whole_->padding_side);
      SetUnlessGiven("truncation_side", whole_->truncation_side);
    }
    for (const char* key : {"padding_side", "truncation_side"}) {
      if (Has(key) && fields_[key] != "right") return Wrong(FieldOf(key), "\"right\"");
    }
    return absl::OkStatus();
  }

  void SetUnlessGiven(const char* key, const json& value) {
    if (fields_.contains(key)) return;
    fields_[key] = value;
    origin_[key] = whole_->path;
  }

  absl::Status ReadMaxLength(int limit) {
    config_.max_length = limit;
    const char* key = Has("model_max_length") ? "model_max_length" : "max_len";
    if (!Has(key)) return absl::OkStatus();
    const Field field = FieldOf(key);
    // transformers writes 10^30, too large for an integer, where there is no limit.
    if (!field.value.is_number() || field.value.get<double>() < 2) {
      return Wrong(field, "a number of at least 2 (the start and the end token)");
    }
    config_.max_length = static_cast<int>(std::min<double>(limit, field.value.get<double>()));
    return absl::OkStatus();
  }

  const TokenizerJson* const whole_;
  const FileReader& read_;
  const std::string config_path_;
  const std::string map_path_;
  const std::string added_path_;
  json fields_;
  std::map<std::string, std::string> origin_;  // file of each field that is not from the config
  TokenizerConfig config_;
  std::vector<AddedToken> listed_;
  std::vector<AddedToken> special_;
};

}  // namespace

absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::string& directory,
                                                    const TokenizerJson* whole,
                                                    int max_length_limit, const FileReader& read) {
  return ConfigReader(directory, whole, read).Read(max_length_limit);
}

}  // namespace latentd::tokenizer
