#include "core/adapters/lora/peft_scales.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "core/base/json.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace latentd::adapters {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostBytes = weights::kMaxLoraConfigBytes;
constexpr double kDefaultAlpha = 8;  // PEFT's own
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
  return pattern.find_first_of("*+?[](){}|$\\^") == absl::string_view::npos;
}

}  // namespace

// Reads the fields of one configuration, which begin with a prefix.
class PeftScales::Reader {
 public:
  Reader(const Json& object, absl::string_view prefix, absl::string_view source)
      : object_(object), prefix_(prefix), source_(source) {}

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
    constexpr absl::string_view kField = "alpha_pattern";
    std::vector<Pattern> patterns;
    const Json& object = Field(kField);
    if (object.is_null()) return patterns;
    if (!object.is_object()) return Refuse(kField, "is no object");
    for (const auto& [key, value] : object.items()) {
      std::string path = absl::StrReplaceAll(key, {{"\\.", "."}});
      const bool is_whole = absl::StartsWith(path, "^");
      path = std::string(absl::StripPrefix(path, "^"));
      if (!IsPath(path)) {
        return Refuse(kField, absl::StrCat("has the regular expression ", Excerpt(key),
                                           "; paths of modules and their ends are read"));
      }
      ASSIGN_OR_RETURN(const double alpha, Number(value, kField, kDefaultAlpha));
      patterns.push_back({std::move(path), is_whole, alpha});
    }
    return patterns;
  }

  const Json& object_;
  const absl::string_view prefix_, source_;
};

absl::StatusOr<PeftScales> PeftScales::OfMetadata(absl::string_view text,
                                                  absl::string_view source) {
  ASSIGN_OR_RETURN(const Json object, ParseJsonObject(text, source, kMostBytes));
  PeftScales scales;
  for (const absl::string_view component : kComponents) {
    const std::string prefix = absl::StrCat(component, ".");
    if (!HasFieldsUnder(object, prefix)) continue;
    ASSIGN_OR_RETURN(Config config, Reader(object, prefix, source).Read());
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
  ASSIGN_OR_RETURN(Config config, Reader(object, "", source).Read());
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
    return !pattern.is_whole && absl::EndsWith(path, absl::StrCat(".", pattern.path));
  };
  const auto pattern = absl::c_find_if(config.patterns, fits);
  const double alpha = pattern == config.patterns.end() ? config.alpha : pattern->alpha;
  const auto size = static_cast<double>(rank);
  return alpha / (config.is_rank_stabilized ? std::sqrt(size) : size);
}

}  // namespace latentd::adapters
