#include "core/networks/config/config_reader.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/json.h"
#include "core/base/text/text.h"

namespace latentd::networks {
namespace {

using nlohmann::json;

// How many mistakes one error spells out.
constexpr size_t kMaxMistakes = 12;

// The field's value for a message. Lists and objects are named by kind: printing them could take
// long.
std::string Echo(const json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  if (!value.is_string()) return value.dump();
  return absl::StrCat("\"", Excerpt(value.get_ref<const std::string&>()), "\"");
}

std::string Supported(Range range) {
  return absl::StrCat("an integer from ", range.min, " to ", range.max);
}

}  // namespace

struct ConfigReader::State {
  json fields;
  std::string source;
  absl::flat_hash_set<std::string> known;
  std::vector<std::string> mistakes;
};

ConfigReader::ConfigReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
ConfigReader::~ConfigReader() = default;
ConfigReader::ConfigReader(ConfigReader&&) noexcept = default;

absl::StatusOr<ConfigReader> ConfigReader::Parse(absl::string_view text, absl::string_view source,
                                                 absl::string_view class_name) {
  ASSIGN_OR_RETURN(ConfigReader reader, ParseAnyClass(text, source));
  reader.ChoiceOrNull("_class_name", {class_name});
  return reader;
}

absl::StatusOr<ConfigReader> ConfigReader::ParseAnyClass(absl::string_view text,
                                                         absl::string_view source) {
  auto state = std::make_unique<State>();
  ASSIGN_OR_RETURN(state->fields, ParseJsonObject(text, source, kMaxBytes));
  state->source = std::string(source);
  return ConfigReader(std::move(state));
}

const json* ConfigReader::Find(absl::string_view name) {
  state_->known.insert(std::string(name));
  auto found = state_->fields.find(std::string(name));
  return found == state_->fields.end() ? nullptr : &*found;
}

void ConfigReader::Mistake(absl::string_view name, absl::string_view what) {
  state_->mistakes.push_back(absl::StrCat("field ", name, " ", what));
}

void ConfigReader::WrongValue(absl::string_view name, const json& value,
                              absl::string_view supported) {
  Mistake(name, absl::StrCat("is ", Echo(value), "; supported: ", supported));
}

bool ConfigReader::Boolean(absl::string_view name, bool fallback) {
  const json* value = Find(name);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_null()) return false;
  WrongValue(name, *value, "true, false");
  return fallback;
}

std::optional<int64_t> ConfigReader::AsInteger(absl::string_view name, const json& value,
                                               Range range) {
  // Python writes some integers as 0.0; converting to double first keeps huge numbers out of range.
  if (value.is_number()) {
    const double number = value.get<double>();
    if (number == std::floor(number) && number >= static_cast<double>(range.min) &&
        number <= static_cast<double>(range.max)) {
      return static_cast<int64_t>(number);
    }
  }
  WrongValue(name, value, Supported(range));
  return std::nullopt;
}

int64_t ConfigReader::Integer(absl::string_view name, int64_t fallback, Range range) {
  const json* value = Find(name);
  return value == nullptr ? fallback : AsInteger(name, *value, range).value_or(fallback);
}

bool ConfigReader::IsNull(absl::string_view name) {
  const json* value = Find(name);
  return value != nullptr && value->is_null();
}

std::optional<int64_t> ConfigReader::IntegerOrNull(absl::string_view name, Range range) {
  const json* value = Find(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return AsInteger(name, *value, range);
}

double ConfigReader::Number(absl::string_view name, double fallback) {
  const json* value = Find(name);
  if (value == nullptr) return fallback;
  if (value->is_number()) return value->get<double>();
  WrongValue(name, *value, "a number");
  return fallback;
}

double ConfigReader::Positive(absl::string_view name, double fallback) {
  const json* value = Find(name);
  if (value == nullptr) return fallback;
  if (value->is_number() && value->get<double>() > 0) return value->get<double>();
  WrongValue(name, *value, "a number greater than 0");
  return fallback;
}

std::optional<double> ConfigReader::NumberOrNull(absl::string_view name) {
  const json* value = Find(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return Number(name, 0);
}

std::optional<std::vector<double>> ConfigReader::NumbersOrNull(absl::string_view name) {
  const json* value = Find(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  std::vector<double> numbers;
  bool sound = value->is_array();
  for (const json& element : *value) {
    sound = sound && element.is_number();
    if (sound) numbers.push_back(element.get<double>());
  }
  if (sound) return numbers;
  WrongValue(name, *value, "null, a list of numbers");
  return std::nullopt;
}

std::optional<std::string> ConfigReader::AsChoice(
    absl::string_view name, const json& value, std::initializer_list<absl::string_view> supported) {
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    for (absl::string_view choice : supported) {
      if (text == choice) return text;
    }
  }
  WrongValue(name, value, absl::StrJoin(supported, ", "));
  return std::nullopt;
}

std::string ConfigReader::Choice(absl::string_view name, absl::string_view fallback,
                                 std::initializer_list<absl::string_view> supported) {
  const json* value = Find(name);
  if (value == nullptr) return std::string(fallback);
  return AsChoice(name, *value, supported).value_or(std::string(fallback));
}

std::optional<std::string> ConfigReader::ChoiceOrNull(
    absl::string_view name, std::initializer_list<absl::string_view> supported) {
  const json* value = Find(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return AsChoice(name, *value, supported);
}

void ConfigReader::RequireOff(absl::string_view name) {
  const json* value = Find(name);
  // null, [] and {} are empty.
  if (value == nullptr || value->empty() || *value == json(false)) return;
  WrongValue(name, *value, "null, false (or leave it out)");
}

absl::Status ConfigReader::Finish(const UnreadFields& unread) {
  for (absl::string_view name : unread.must_be_off) RequireOff(name);
  for (absl::string_view name : unread.harmless) state_->known.insert(std::string(name));
  if (state_->mistakes.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(state_->source, ": ", ListSome(state_->mistakes, kMaxMistakes, "; ")));
}

std::vector<std::string> ConfigReader::unknown_fields() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : state_->fields.items()) {
    if (absl::StartsWith(name, "_") || state_->known.contains(name)) continue;
    names.push_back(Excerpt(name));
  }
  return names;
}

}  // namespace latentd::networks
