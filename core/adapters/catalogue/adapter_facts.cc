#include "core/adapters/catalogue/adapter_facts.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/adapters/lora/lora_base.h"
#include "core/adapters/lora/lora_paths.h"
#include "core/base/files/json.h"
#include "core/base/text/digest.h"

namespace latentd::adapters {
namespace {

using pipeline::AdapterFacts;

constexpr size_t kMostSaidBytes = size_t{1} << 20;
constexpr size_t kMostTextBytes = 1024;

void AddTexts(const LoraMetadata& metadata, AdapterFacts& facts) {
  facts.base_model = metadata.base_model;
  facts.trigger_phrase = metadata.trigger_phrase;
  facts.trigger_words = metadata.trigger_words;
  facts.clip_skip = metadata.clip_skip;
  facts.prediction_type = metadata.prediction_type;
}

// The rank of a change; 0: it has none.
int64_t RankOf(const WeightChange& change) {
  if (const auto* low = std::get_if<LowRank>(&change.delta)) return low->down.data.shape()[0];
  if (const auto* hadamard = std::get_if<Hadamard>(&change.delta)) {
    return hadamard->t1 ? hadamard->w1_a.data.shape()[0] : hadamard->w1_a.data.shape()[1];
  }
  return 0;
}

using Parts = std::map<std::string, std::string>;

Parts PartsOf(const weights::TensorMap& tensors) {
  Parts parts;
  for (const auto& [name, tensor] : tensors) {
    const Digest content = tensor.digest != nullptr   ? tensor.digest->Get()
                           : tensor.data.has_memory() ? weights::ContentDigest(tensor.data).Get()
                                                      : Digest();
    parts[absl::StrCat("tensor ", name)] =
        absl::StrCat(tensor.unusable_dtype, " ", device::Name(tensor.data.dtype()), " ",
                     tensor.data.shape().ToString(), " ", content.ToString());
  }
  return parts;
}

std::string DigestOfParts(std::string text, const Parts& parts) {
  for (const auto& [name, part] : parts) {
    absl::StrAppend(&text, "\n", name.size(), " ", name, " ", part.size(), " ", part);
  }
  return latentd::DigestOf(text).ToString();
}

}  // namespace

void AddMetadata(const LoraFile& file, AdapterFacts& facts) {
  AddTexts(ReadLoraMetadata(file.metadata), facts);
}

void AddFacts(const Lora& lora, AdapterFacts& facts) {
  AddTexts(lora.metadata, facts);
  facts.changes = static_cast<int>(lora.changes.size());
  facts.warnings = lora.warnings;
  for (const WeightChange& change : lora.changes) {
    const int64_t rank = RankOf(change);
    if (rank <= facts.rank) continue;
    facts.rank = static_cast<int>(rank);
    facts.alpha = change.scale * static_cast<double>(rank);
  }
  facts.path_rank = IsPlain(lora) ? facts.rank : 0;
}

void AddSaid(const std::string& text, AdapterFacts& facts) {
  if (text.empty()) return;
  const auto said = ParseJsonObject(text, "", kMostSaidBytes);
  if (!said.ok()) return;
  const auto phrase = said->find("activation text");
  if (phrase != said->end() && phrase->is_string() && facts.trigger_phrase.empty()) {
    const std::string words = phrase->get<std::string>();
    if (words.size() <= kMostTextBytes) facts.trigger_phrase = DisplayedText(words);
  }
  const auto preset = said->find("preset");
  if (preset != said->end() && !preset->is_null()) {
    // Another value is no preset's name either, and is reported as it is.
    facts.preset = preset->is_string() ? preset->get<std::string>() : preset->dump();
  }
  // 0 is what the program writes where nothing is preferred.
  const auto weight = said->find("preferred weight");
  if (weight == said->end() || !weight->is_number()) return;
  const double value = weight->get<double>();
  if (std::isfinite(value) && value != 0) facts.recommended_weight = value;
}

std::string DigestOf(const LoraFile& file) {
  Parts parts = PartsOf(file.tensors);
  for (const auto& [name, value] : file.metadata) parts[absl::StrCat("said ", name)] = value;
  return DigestOfParts(file.adapter_config, parts);
}

std::string DigestOfEncoder(const weights::TensorMap& tensors, const std::string& config) {
  Parts parts = PartsOf(tensors);
  parts["config"] = config;
  return DigestOfParts("", parts);
}

std::string DigestOfBoth(const std::string& own, const std::string& encoder) {
  return latentd::DigestOf(absl::StrCat(own, "\n", encoder)).ToString();
}

int64_t BytesOf(const LoraFile& file) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : file.tensors) {
    bytes += static_cast<int64_t>(tensor.data.bytes());
  }
  return bytes;
}

}  // namespace latentd::adapters
