// How PEFT says the scale of a LoRA: a configuration in adapter_config.json, or the same for each
// component in a file's metadata, from where diffusers reads it.
//
// Immutable; any thread may read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/adapters/lora/model_modules.h"
#include "core/weights/containers/safetensors_header.h"

namespace latentd::adapters {

class PeftScales {
 public:
  // The entry of a file's metadata with the configurations: a JSON object with the fields of each
  // behind the component's name and a dot, "unet.lora_alpha".
  static constexpr absl::string_view kMetadataKey = weights::kLoraConfigKey;

  PeftScales() = default;  // says nothing

  // The text of kMetadataKey. INVALID_ARGUMENT, beginning with `source`: it is no such object.
  static absl::StatusOr<PeftScales> OfMetadata(absl::string_view text, absl::string_view source);
  // The text of adapter_config.json, which is of every component that its tensors are of.
  // INVALID_ARGUMENT also where it is of another kind than LoRA.
  static absl::StatusOr<PeftScales> OfConfig(absl::string_view text, absl::string_view source);

  // The factor of a module's delta of that rank: alpha / rank, or alpha / sqrt(rank) (rsLoRA).
  // Nullopt: nothing is said of its component.
  std::optional<double> Find(const Module& module, int64_t rank) const;

 private:
  struct Pattern {
    std::string path;  // a module's, or its end
    bool is_whole;
    double alpha;
  };
  struct Config {
    double alpha;
    bool is_rank_stabilized;
    std::vector<Pattern> patterns;  // in the text's order; the first that fits counts
  };
  class Reader;

  absl::btree_map<std::string, Config> configs_;  // by component; "": of all
};

}  // namespace latentd::adapters
