// The list-valued fields of ConfigReader.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "core/networks/config/config_reader.h"

namespace latentd::networks {
namespace {

using nlohmann::json;

bool IsShortList(const json& value) {
  return value.is_array() && !value.empty() && value.size() <= ConfigReader::kMaxListLength;
}

std::string ListOf(absl::string_view what) {
  return absl::StrCat("a list of 1 to ", ConfigReader::kMaxListLength, " ", what);
}

std::string OneFor(size_t blocks) {
  return absl::StrCat("one value, or a list of ", blocks, " (one for each block)");
}

}  // namespace

std::vector<int64_t> ConfigReader::Integers(absl::string_view name, std::vector<int64_t> fallback,
                                            Range range) {
  const json* value = Find(name);
  if (value == nullptr) return fallback;
  if (!IsShortList(*value)) {
    WrongValue(name, *value, ListOf("integers"));
    return fallback;
  }
  std::vector<int64_t> integers;
  for (const json& element : *value) {
    integers.push_back(AsInteger(name, element, range).value_or(range.min));
  }
  return integers;
}

std::vector<std::string> ConfigReader::Choices(absl::string_view name,
                                               std::vector<std::string> fallback,
                                               std::initializer_list<absl::string_view> supported) {
  const json* value = Find(name);
  if (value == nullptr) return fallback;
  if (!IsShortList(*value)) {
    WrongValue(name, *value, ListOf("names"));
    return fallback;
  }
  std::vector<std::string> names;
  for (const json& element : *value) {
    names.push_back(AsChoice(name, element, supported).value_or(std::string(*supported.begin())));
  }
  return names;
}

std::vector<int64_t> ConfigReader::PerBlock(absl::string_view name, int64_t fallback, size_t blocks,
                                            Range range) {
  const json* value = Find(name);
  if (value == nullptr) return std::vector<int64_t>(blocks, fallback);
  if (!value->is_array()) {
    return std::vector<int64_t>(blocks, AsInteger(name, *value, range).value_or(fallback));
  }
  if (value->size() != blocks) {
    Mistake(name, absl::StrCat("has ", value->size(), " elements; supported: ", OneFor(blocks)));
    return std::vector<int64_t>(blocks, fallback);
  }
  std::vector<int64_t> integers;
  for (const json& element : *value) {
    integers.push_back(AsInteger(name, element, range).value_or(fallback));
  }
  return integers;
}

std::vector<bool> ConfigReader::PerBlock(absl::string_view name, bool fallback, size_t blocks) {
  const json* value = Find(name);
  if (value == nullptr) return std::vector<bool>(blocks, fallback);
  if (value->is_boolean()) return std::vector<bool>(blocks, value->get<bool>());
  std::vector<bool> booleans;
  if (value->is_array() && value->size() == blocks) {
    for (const json& element : *value) {
      if (element.is_boolean()) booleans.push_back(element.get<bool>());
    }
  }
  if (booleans.size() == blocks) return booleans;
  WrongValue(name, *value, absl::StrCat("true, false, or a list of ", blocks, " of them"));
  return std::vector<bool>(blocks, fallback);
}

std::vector<int64_t> ConfigReader::LayersOfBlock(absl::string_view name, const json& value,
                                                 int64_t layers, Range range) {
  if (!value.is_array()) {
    return std::vector<int64_t>(layers, AsInteger(name, value, range).value_or(range.min));
  }
  std::vector<int64_t> integers;
  for (const json& element : value) {
    if (integers.size() == kMaxListLength) break;
    integers.push_back(AsInteger(name, element, range).value_or(range.min));
  }
  if (static_cast<int64_t>(integers.size()) < layers) {
    Mistake(name, absl::StrCat("has a list of ", integers.size(), " for a block of ", layers,
                               " layers; supported: one for each layer"));
    integers.resize(layers, range.min);
  }
  return integers;
}

std::optional<std::vector<std::vector<int64_t>>> ConfigReader::PerLayer(
    absl::string_view name, const std::vector<int64_t>& layers, Range range) {
  const json* value = Find(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  const bool one_for_all = !value->is_array();
  if (!one_for_all && value->size() != layers.size()) {
    Mistake(name,
            absl::StrCat("has ", value->size(), " elements; supported: ", OneFor(layers.size())));
    return std::nullopt;
  }
  std::vector<std::vector<int64_t>> blocks;
  for (size_t i = 0; i < layers.size(); ++i) {
    blocks.push_back(LayersOfBlock(name, one_for_all ? *value : (*value)[i], layers[i], range));
  }
  return blocks;
}

std::optional<ConfigReader::Size> ConfigReader::SizeOrNull(absl::string_view name) {
  constexpr Range kSides = {1, 1 << 16};
  const json* value = Find(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (value->is_number()) {
    const int64_t side = AsInteger(name, *value, kSides).value_or(1);
    return Size{side, side};
  }
  if (!value->is_array() || value->size() != 2) {
    WrongValue(name, *value, "an integer, or a list of height and width");
    return std::nullopt;
  }
  return Size{AsInteger(name, (*value)[0], kSides).value_or(1),
              AsInteger(name, (*value)[1], kSides).value_or(1)};
}

}  // namespace latentd::networks
