#include "server/config/model_flag.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/errors/status_macros.h"
#include "server/config/flag_values.h"
#include "server/config/lora_flag.h"

namespace latentd::server::config {
namespace {

using pipeline::ModelSource;
using pipeline::Residency;

constexpr absl::string_view kFlag = "model";
constexpr size_t kMaxNameBytes = 32;  // as labels of graphs have
constexpr absl::string_view kComponents[] = {"vae", "unet", "vae-tiny", "text-encoder",
                                             "text-encoder-2"};
constexpr absl::string_view kSettings[] = {
    "components-from", "prediction-type", "ema",     "lora",
    "preset",          "scheduler",       "buckets", "residency"};

bool IsModelName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && absl::c_all_of(name, [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
  });
}

bool IsKey(absl::string_view text) {
  return absl::c_linear_search(kComponents, text) || absl::c_linear_search(kSettings, text);
}

// The parts between commas; a comma that no key follows belongs to a path.
std::vector<std::string> PartsOf(absl::string_view text) {
  std::vector<std::string> parts;
  for (const absl::string_view piece : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> split =
        absl::StrSplit(piece, absl::MaxSplits('=', 1));
    const bool is_setting = absl::StrContains(piece, '=') && IsKey(split.first);
    if (parts.empty() || is_setting) {
      parts.emplace_back(piece);
    } else {
      absl::StrAppend(&parts.back(), ",", piece);
    }
  }
  return parts;
}

absl::StatusOr<Residency> ToResidency(absl::string_view text, absl::string_view value) {
  if (value == "pinned") return Residency::kPinned;
  if (value == "ready") return Residency::kReady;
  if (value == "on_demand") return Residency::kOnDemand;
  return WrongValue(kFlag, text, "with residency=pinned, ready or on_demand");
}

absl::Status Set(const std::string& text, absl::string_view key, const std::string& value,
                 ModelSource& model) {
  if (value.empty()) return WrongValue(kFlag, text, absl::StrCat("with a value for ", key));
  if (absl::c_linear_search(kComponents, key)) {
    const std::string component = absl::StrReplaceAll(key, {{"-", "_"}});
    if (model.parts.components.emplace(component, value).second) return absl::OkStatus();
    return WrongValue(kFlag, text, absl::StrCat("with one ", key));
  }
  if (key == "components-from") model.parts.components_from = value;
  if (key == "prediction-type") {
    RETURN_IF_ERROR(CheckPredictionType(kFlag, value));
    model.parts.prediction_type = value;
  }
  if (key == "ema" && !absl::SimpleAtob(value, &model.parts.ema)) {
    return WrongValue(kFlag, text, "with ema=true or false");
  }
  if (key == "lora") {
    ASSIGN_OR_RETURN(pipeline::LoraFile lora, ToLora(kFlag, value));
    model.parts.loras.push_back(std::move(lora));
  }
  if (key == "preset") model.preset = value;
  if (key == "scheduler") model.scheduler = value;
  if (key == "buckets") {
    ASSIGN_OR_RETURN(model.buckets, ToSizes(kFlag, absl::StrReplaceAll(value, {{"+", ","}})));
  }
  if (key == "residency") {
    ASSIGN_OR_RETURN(model.residency, ToResidency(text, value));
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelSource> ToModel(const std::string& text) {
  const std::vector<std::string> parts = PartsOf(text);
  const size_t equals = parts.front().find('=');
  ModelSource model{.name = parts.front().substr(0, equals), .residency = Residency::kOnDemand};
  if (equals != std::string::npos) model.checkpoint = parts.front().substr(equals + 1);
  if (!IsModelName(model.name) || model.checkpoint.empty()) {
    return WrongValue(
        kFlag, text,
        absl::StrCat("NAME=PATH, such as anime=/models/anime.safetensors, where NAME has at most ",
                     kMaxNameBytes, " small letters, digits and underscores; behind it may stand ",
                     absl::StrJoin(kComponents, ", "), ", ", absl::StrJoin(kSettings, ", "),
                     ", each as ,KEY=VALUE"));
  }
  if (model.name == "base" || model.name == "refiner") {
    return WrongValue(kFlag, text,
                      absl::StrCat("of another name: --", model.name, " has this one"));
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t at = parts[i].find('=');
    RETURN_IF_ERROR(
        Set(text, absl::string_view(parts[i]).substr(0, at), parts[i].substr(at + 1), model));
  }
  return model;
}

}  // namespace

absl::StatusOr<std::vector<ModelSource>> ToModels(const std::vector<std::string>& texts) {
  std::vector<ModelSource> models;
  std::set<std::string> names;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(ModelSource model, ToModel(text));
    if (!names.insert(model.name).second) {
      return WrongValue(kFlag, text, "of another name: there is a model of this one already");
    }
    models.push_back(std::move(model));
  }
  constexpr size_t kMost = pipeline::kMaxModels - 3;  // beside base, refiner and video
  if (models.size() <= kMost) return models;
  return WrongValue(kFlag, texts.back(), absl::StrCat("given at most ", kMost, " times"));
}

}  // namespace latentd::server::config
