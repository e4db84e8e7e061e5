#include "core/adapters/lora/lora_base.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/adapters/lora/lora_keys.h"
#include "core/base/files/json.h"
#include "core/base/text/text.h"
#include "core/weights/containers/safetensors_header.h"

namespace latentd::adapters {
namespace {

constexpr absl::string_view kFirstModel = "Stable Diffusion 1";
constexpr absl::string_view kSecondModel = "Stable Diffusion 2";
constexpr absl::string_view kXl = "SDXL";
constexpr absl::string_view kRefiner = "SDXL's refiner";

constexpr absl::string_view kVersionKey = "ss_base_model_version";
constexpr absl::string_view kArchitectureKey = "modelspec.architecture";

struct BeginningRow {
  absl::string_view beginning, model;
};

// Beginnings of ss_base_model_version and modelspec.architecture, in lower case. The first counts.
constexpr BeginningRow kBeginnings[] = {
    {"sdxl_refiner", kRefiner},
    {"stable-diffusion-xl-v1-refiner", kRefiner},
    {"sdxl", kXl},
    {"stable-diffusion-xl", kXl},
    {"sd_v1", kFirstModel},
    {"sd_1", kFirstModel},
    {"sd1", kFirstModel},
    {"stable-diffusion-v1", kFirstModel},
    {"sd_v2", kSecondModel},
    {"sd_2", kSecondModel},
    {"stable-diffusion-v2", kSecondModel},
    {"sd3", "Stable Diffusion 3"},
    {"sd_3", "Stable Diffusion 3"},
    {"stable-diffusion-v3", "Stable Diffusion 3"},
    {"stable-diffusion-3", "Stable Diffusion 3"},
    {"flux", "FLUX"},
    {"stable-cascade", "Stable Cascade"},
    {"hunyuan", "a model of Hunyuan"},
    {"wan", "Wan"},
    {"qwen", "Qwen-Image"},
    {"lumina", "Lumina"},
};

struct FeaturesRow {
  int64_t features;
  absl::string_view model;
};

constexpr FeaturesRow kFeatures[] = {
    {768, kFirstModel}, {1024, kSecondModel}, {2048, kXl}, {1280, kRefiner}};

constexpr size_t kMostSaidBytes = 1024;

bool ContinuesCharacter(char byte) {
  constexpr unsigned kMask = 0xc0, kContinues = 0x80;
  return (static_cast<unsigned char>(byte) & kMask) == kContinues;
}

std::string Said(const weights::Metadata& metadata, absl::string_view key) {
  const auto found = metadata.find(key);
  return found == metadata.end() || found->second == "None" ? "" : DisplayedText(found->second);
}

// {"10_film": {"film style": 120, "a dog": 3}} of each folder of pictures, summed over these. What
// is not of this form says nothing: it is for people.
std::vector<std::string> TagsOf(const weights::Metadata& metadata) {
  constexpr size_t kMostTags = 10, kMostTagBytes = 100;
  const auto found = metadata.find(weights::kTagsKey);
  if (found == metadata.end()) return {};
  const auto folders = ParseJsonObject(found->second, weights::kTagsKey, weights::kMaxTagsBytes);
  if (!folders.ok()) return {};
  absl::btree_map<std::string, double> counts;
  for (const auto& [folder, tags] : folders->items()) {
    if (!tags.is_object()) continue;
    for (const auto& [tag, count] : tags.items()) {
      const std::string text(absl::StripAsciiWhitespace(tag));
      if (count.is_number() && !text.empty() && text.size() <= kMostTagBytes) {
        counts[text] += count.get<double>();
      }
    }
  }
  std::vector<std::pair<std::string, double>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> words;
  for (const auto& [tag, count] : sorted) {
    if (words.size() < kMostTags) words.push_back(DisplayedText(tag));
  }
  return words;
}

bool ReadsText(absl::string_view module) {
  for (const absl::string_view end : {"attn2.to_k", "attn2_to_k", "attn2.to_v", "attn2_to_v"}) {
    if (absl::EndsWith(module, end)) return true;
  }
  return false;
}

}  // namespace

std::string DisplayedText(std::string text) {
  constexpr char kBeforeControl = '\xc2';  // begins U+0080 to U+009F
  constexpr unsigned char kAboveControls = 0xa0;
  if (text.size() > kMostSaidBytes) {
    size_t end = kMostSaidBytes;
    while (end > 0 && ContinuesCharacter(text[end])) --end;
    text.resize(end);
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(text[i]))) text[i] = ' ';
    if (i == 0 || text[i - 1] != kBeforeControl || !ContinuesCharacter(text[i])) continue;
    if (static_cast<unsigned char>(text[i]) < kAboveControls) text[i - 1] = text[i] = ' ';
  }
  return text;
}

absl::string_view ModelOfFeatures(int64_t text_features) {
  for (const FeaturesRow& row : kFeatures) {
    if (row.features == text_features) return row.model;
  }
  return "";
}

absl::string_view ModelOfMetadata(const weights::Metadata& metadata) {
  for (const absl::string_view key : {kVersionKey, kArchitectureKey}) {
    const std::string text = absl::AsciiStrToLower(Said(metadata, key));
    for (const BeginningRow& row : kBeginnings) {
      if (absl::StartsWith(text, row.beginning)) return row.model;
    }
  }
  return "";
}

int64_t TextFeaturesOf(const weights::TensorMap& tensors) {
  int64_t features = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::optional<LoraKey> key = SplitKey(NormalKey(name));
    if (!key || (key->role != Role::kDown && key->role != Role::kHadaW1B)) continue;
    if (!ReadsText(key->module) || tensor.data.shape().rank() < 2) continue;
    const int64_t own = tensor.data.shape()[1];
    if (features != 0 && own != features) return 0;
    features = own;
  }
  return features;
}

absl::Status CheckBase(const std::string& path, const weights::TensorMap& tensors,
                       const weights::Metadata& metadata, int64_t text_features) {
  const absl::string_view served = ModelOfFeatures(text_features);
  const auto refuse = [&](absl::string_view model, absl::string_view by) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is a LoRA for ", model, " (by ", by, "), and the model is ", served));
  };
  if (served.empty()) return absl::OkStatus();
  const int64_t features = TextFeaturesOf(tensors);
  const absl::string_view by_shape = ModelOfFeatures(features);
  if (!by_shape.empty() && by_shape != served) {
    return refuse(by_shape, absl::StrCat("the ", features, " features of text that it reads"));
  }
  const absl::string_view said = ModelOfMetadata(metadata);
  if (!by_shape.empty() || said.empty() || said == served) return absl::OkStatus();
  return refuse(said, "its metadata");
}

LoraMetadata ReadLoraMetadata(const weights::Metadata& metadata) {
  LoraMetadata read;
  read.base_model = Said(metadata, kVersionKey);
  if (read.base_model.empty()) read.base_model = Said(metadata, kArchitectureKey);
  read.output_name = Said(metadata, "ss_output_name");
  if (read.output_name.empty()) read.output_name = Said(metadata, "modelspec.title");
  read.trigger_phrase = Said(metadata, "modelspec.trigger_phrase");
  read.clip_skip = Said(metadata, "ss_clip_skip");
  read.prediction_type = Said(metadata, "modelspec.prediction_type");
  read.trigger_words = TagsOf(metadata);
  return read;
}

}  // namespace latentd::adapters
