// The value of --lora, and of lora= behind --model: "FILE", "FILE:WEIGHT" or
// "FILE:WEIGHT:TEXT_ENCODER_WEIGHT". One weight is for all that the LoRA changes; of two the first
// is the UNet's; without one it is 1. Weights are from -1e6 to 1e6.
//
// Thread-safe: a free function without state.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/api/config.h"

namespace latentd::server::config {

// INVALID_ARGUMENT names the flag, the text and what would be right.
absl::StatusOr<pipeline::LoraFile> ToLora(absl::string_view flag, const std::string& text);

}  // namespace latentd::server::config
