#include "core/pipeline/graphs/model_loras.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/adapters/lora/lora_reader.h"
#include "core/adapters/lora/merge_loras.h"
#include "core/adapters/lora/model_modules.h"
#include "core/base/errors/status_macros.h"

namespace latentd::pipeline {
namespace {

using adapters::Lora;
using adapters::WeightedLora;

// "film" of "/loras/film.safetensors", of a folder "/loras/film", and of one of the Hub's cache,
// "models--studio--film/snapshots/1f0c".
std::string NameOf(const std::string& path) {
  std::filesystem::path place(path);
  if (!place.has_filename()) place = place.parent_path();
  if (place.parent_path().filename() == "snapshots") {
    const std::string model = place.parent_path().parent_path().filename().string();
    const size_t dashes = model.rfind("--");
    return dashes == std::string::npos ? model : model.substr(dashes + 2);
  }
  const bool is_file = place.extension() == ".safetensors";
  return is_file ? place.stem().string() : place.filename().string();
}

// The message names the file.
absl::Status Named(const ModelRow& row, const absl::Status& status) {
  const std::string flag = row.flag == "base" ? "--lora" : absl::StrCat("--", row.flag, ",lora");
  return absl::Status(status.code(), absl::StrCat(flag, ": ", status.message()));
}

AppliedLora FactsOf(const LoraFile& file, const Lora& lora) {
  return {.file = file,
          .name = lora.name,
          .changes = static_cast<int>(lora.changes.size()),
          .trigger_phrase = lora.metadata.trigger_phrase,
          .base_model = lora.metadata.base_model};
}

}  // namespace

absl::StatusOr<ModelLoras> ApplyLoras(const ModelRow& row,
                                      std::shared_ptr<const weights::WeightSet> weights) {
  ModelLoras result;
  if (row.parts.loras.empty()) return ModelLoras{std::move(weights), {}, {}};
  const adapters::ModelModules modules(weights->Shapes());
  std::vector<WeightedLora> weighted;
  for (const LoraFile& file : row.parts.loras) {
    absl::StatusOr<Lora> lora = adapters::ReadLora(NameOf(file.path), file.path, modules);
    if (!lora.ok()) return Named(row, lora.status());
    result.applied.push_back(FactsOf(file, *lora));
    for (const std::string& warning : lora->warnings) {
      result.warnings.push_back(absl::StrCat(file.path, ": ", warning));
    }
    weighted.push_back({std::make_shared<const Lora>(*std::move(lora)), file.unet_weight,
                        file.text_encoder_weight, file.text_encoder_weight});
  }
  ASSIGN_OR_RETURN(result.weights, adapters::MergeLoras(std::move(weights), weighted));
  return result;
}

std::string Describe(const ModelRow& row, const AppliedLora& lora) {
  const auto& [path, unet, text] = lora.file;
  std::string line = absl::StrCat(row.name, " has the LoRA ", path, " merged in, weight ", unet);
  if (text != unet) absl::StrAppend(&line, " (text encoders ", text, ")");
  absl::StrAppend(&line, ": it changes ", lora.changes, " weights");
  if (!lora.base_model.empty()) absl::StrAppend(&line, ", made for ", lora.base_model);
  if (!lora.trigger_phrase.empty()) {
    absl::StrAppend(&line, "; prompts should have: ", lora.trigger_phrase);
  }
  return line;
}

}  // namespace latentd::pipeline
