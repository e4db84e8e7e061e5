#include "core/adapters/lora/peft_scales.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/json.h"
#include "core/base/text/text.h"

namespace latentd::adapters {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostBytes = weights::kMaxLoraConfigBytes;
constexpr size_t kMostPatterns = 10'000;  // SDXL has some 1,000 modules
constexpr double kDefaultAlpha = 8;       // PEFT's own
constexpr absl::string_view kComponents[] = {"unet", "text_encoder", "text_encoder_2"};

// Null where it is absent, too.
const Json& FieldOf(const Json& object, const std::string& name) {
  static const Json& null = *new Json(nullptr);
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

bool HasFieldsUnder(const Json& object, absl::string_view prefix) {
  return absl::c_any_of(object.items(),
                        [&](const auto& item) { return absl::StartsWith(item.key(), prefix); });
}

// True if PEFT's pattern, a regular expression, says a path and nothing else.
bool IsPath(absl::string_view pattern) {
  return !pattern.empty() && pattern.find_first_of("*+?[](){}|$\\^") == absl::string_view::npos;
}

// True if the end of `path` is one of whole names: "a.b.c" ends in "b.c".
bool EndsInPath(absl::string_view path, absl::string_view end) {
  return absl::ConsumeSuffix(&path, end) && absl::EndsWith(path, ".");
}

// Collects the keys of one field of an object, itself an object, in the order of the text, which
// nlohmann::json does not keep.
class KeyOrder : public nlohmann::json_sax<Json> {
 public:
  explicit KeyOrder(std::string field) : field_(std::move(field)) {}

  std::vector<std::string> Take() && { return std::move(keys_); }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool start_array(size_t) override { return Enter(); }
  bool end_array() override { return Leave(); }
  bool key(string_t& name) override {
    if (depth_ == 1) {
      is_inside_ = name == field_;
      if (is_inside_) keys_.clear();  // the last of two fields of one name counts
    } else if (depth_ == 2 && is_inside_) {
      keys_.push_back(name);
    }
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool Enter() {
    ++depth_;
    return true;
  }

  bool Leave() {
    --depth_;
    return true;
  }

  const std::string field_;
  std::vector<std::string> keys_;
  int depth_ = 0;
  bool is_inside_ = false;
};

}  // namespace

// Reads the fields of one configuration, which begin with a prefix, of an object that `text` is.
class PeftScales::Reader {
 public:
  Reader(const Json& object, absl::string_view text, absl::string_view prefix,
         absl::string_view source)
      : object_(object), text_(text), prefix_(prefix), source_(source) {}

  absl::StatusOr<Config> Read() const {
    Config config = {};
    ASSIGN_OR_RETURN(config.alpha, Number(Field("lora_alpha"), "lora_alpha", kDefaultAlpha));
    const Json& stabilized = Field("use_rslora");
    if (!stabilized.is_null() && !stabilized.is_boolean()) {
      return Refuse("use_rslora", "is neither true nor false");
    }
    config.is_rank_stabilized = stabilized.is_boolean() && stabilized.get<bool>();
    ASSIGN_OR_RETURN(config.patterns, Patterns());
    return config;
  }

 private:
  const Json& Field(absl::string_view name) const {
    return FieldOf(object_, absl::StrCat(prefix_, name));
  }

  absl::Status Refuse(absl::string_view field, absl::string_view why) const {
    return absl::InvalidArgumentError(absl::StrCat(source_, ": ", prefix_, field, " ", why));
  }

  absl::StatusOr<double> Number(const Json& value, absl::string_view field, double absent) const {
    if (value.is_null()) return absent;
    if (value.is_number() && std::isfinite(value.get<double>())) return value.get<double>();
    return Refuse(field, "is no number");
  }

  absl::StatusOr<std::vector<Pattern>> Patterns() const {
    std::vector<Pattern> patterns;
    const Json& object = Field(kPatterns);
    if (object.is_null()) return patterns;
    if (!object.is_object()) return Refuse(kPatterns, "is no object");
    const std::vector<std::string> keys = KeysOfPatterns();
    if (keys.size() > kMostPatterns) {
      return Refuse(kPatterns, absl::StrCat("has ", keys.size(), " patterns; at most ",
                                            kMostPatterns, " are read"));
    }
    for (const std::string& key : keys) {
      ASSIGN_OR_RETURN(Pattern pattern, ReadPattern(key, FieldOf(object, key)));
      patterns.push_back(std::move(pattern));
    }
    return patterns;
  }

  // In the order of the text; one that is there twice may be twice.
  std::vector<std::string> KeysOfPatterns() const {
    KeyOrder order(absl::StrCat(prefix_, kPatterns));
    Json::sax_parse(text_.begin(), text_.end(), &order);  // it is known to be JSON
    return std::move(order).Take();
  }

  absl::StatusOr<Pattern> ReadPattern(const std::string& key, const Json& value) const {
    std::string path = absl::StrReplaceAll(key, {{"\\.", "."}});
    const bool is_whole = absl::StartsWith(path, "^");
    path = std::string(absl::StripPrefix(path, "^"));
    if (!IsPath(path)) {
      return Refuse(kPatterns, absl::StrCat("has the pattern '", Excerpt(key),
                                            "', empty or a regular expression; paths of modules "
                                            "and their ends are read"));
    }
    ASSIGN_OR_RETURN(const double alpha, Number(value, kPatterns, kDefaultAlpha));
    return Pattern{std::move(path), is_whole, alpha};
  }

  static constexpr absl::string_view kPatterns = "alpha_pattern";

  const Json& object_;
  const absl::string_view text_, prefix_, source_;
};

absl::StatusOr<PeftScales> PeftScales::OfMetadata(absl::string_view text,
                                                  absl::string_view source) {
  ASSIGN_OR_RETURN(const Json object, ParseJsonObject(text, source, kMostBytes));
  PeftScales scales;
  for (const absl::string_view component : kComponents) {
    const std::string prefix = absl::StrCat(component, ".");
    if (!HasFieldsUnder(object, prefix)) continue;
    ASSIGN_OR_RETURN(Config config, Reader(object, text, prefix, source).Read());
    scales.configs_.emplace(component, std::move(config));
  }
  return scales;
}

absl::StatusOr<PeftScales> PeftScales::OfConfig(absl::string_view text, absl::string_view source) {
  ASSIGN_OR_RETURN(const Json object, ParseJsonObject(text, source, kMostBytes));
  const Json& type = FieldOf(object, "peft_type");
  if (type.is_string() && type.get<std::string>() != "LORA") {
    return absl::InvalidArgumentError(
        absl::StrCat(source, " is of the kind ", Excerpt(type.get<std::string>()),
                     " (peft_type), which is not read: of PEFT's kinds only LORA is"));
  }
  PeftScales scales;
  ASSIGN_OR_RETURN(Config config, Reader(object, text, "", source).Read());
  scales.configs_.emplace("", std::move(config));
  return scales;
}

std::optional<double> PeftScales::Find(const Module& module, int64_t rank) const {
  auto found = configs_.find(module.component);
  if (found == configs_.end()) found = configs_.find("");
  if (found == configs_.end()) return std::nullopt;
  const Config& config = found->second;
  // PEFT's own names of a text encoder are with text_model. or without.
  const absl::string_view path = module.path, bare = absl::StripPrefix(path, "text_model.");
  const auto fits = [&](const Pattern& pattern) {
    if (path == pattern.path || bare == pattern.path) return true;
    return !pattern.is_whole && EndsInPath(path, pattern.path);
  };
  const auto pattern = absl::c_find_if(config.patterns, fits);
  const double alpha = pattern == config.patterns.end() ? config.alpha : pattern->alpha;
  const auto size = static_cast<double>(rank);
  return alpha / (config.is_rank_stabilized ? std::sqrt(size) : size);
}

}  // namespace latentd::adapters
