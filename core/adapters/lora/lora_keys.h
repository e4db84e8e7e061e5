// The names of tensors in files of LoRAs: a module's path, and a suffix that says the tensor's role
// in the change of the module.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "core/weights/stored_tensor.h"

namespace latentd::adapters {

enum class Role : uint8_t {
  kDown,
  kUp,
  kMid,
  kUpBias,  // PEFT's lora_bias, inside of the delta
  kAlpha,
  kScale,  // in the place of alpha / rank
  kPeftMagnitude,
  kDoraScale,
  kHadaW1A,
  kHadaW1B,
  kHadaW2A,
  kHadaW2B,
  kHadaT1,
  kHadaT2,
  kLokrW1,
  kLokrW1A,
  kLokrW1B,
  kLokrW2,
  kLokrW2A,
  kLokrW2B,
  kLokrT2,
  kDiff,  // the weight's, a norm's too
  kDiffBias,
};

// The name without what some programs put in: PEFT's wrapper and adapter name, diffusers'
// ".processor."; and with a dot where some releases of OneTrainer wrote "_hada_w1_a".
std::string NormalKey(absl::string_view key);

// True of tensors that programs leave behind in files, and no program reads.
bool IsLeftover(absl::string_view key);

struct LoraKey {
  std::string module;  // a spelling of ModelModules
  Role role = Role::kDown;
};

// Nullopt: it has no suffix of a LoRA. REQUIRES: it is a NormalKey.
std::optional<LoraKey> SplitKey(absl::string_view key);

// The kind of adapter, or of file, that a name or its tensor is of, and that is not read: "IA3".
// Empty: none that is known.
std::string OtherKind(absl::string_view key, const weights::StoredTensor& tensor);

}  // namespace latentd::adapters
