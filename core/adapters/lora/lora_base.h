// The model that a LoRA was made for, as its file tells.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/adapters/lora/lora.h"
#include "core/weights/containers/recognize/noise_markers.h"
#include "core/weights/stored_tensor.h"

namespace latentd::adapters {

// "SDXL": the model whose UNet's attention reads so many features of text (see ModelModules);
// empty: none that is known.
absl::string_view ModelOfFeatures(int64_t text_features);

// The same by what kohya's scripts and modelspec.* say; empty: they do not.
absl::string_view ModelOfMetadata(const weights::Metadata& metadata);

// Features of text by the tensors; 0: none of them tells.
int64_t TextFeaturesOf(const weights::TensorMap& tensors);

// INVALID_ARGUMENT, beginning with `path`: it is for another model than the one with these features
// of text.
absl::Status CheckBase(const std::string& path, const weights::TensorMap& tensors,
                       const weights::Metadata& metadata, int64_t text_features);

// A file's text as logs and terminals may show it: not too long, cut between characters of UTF-8,
// and with spaces for control characters, such as the escape that begins a terminal's commands.
std::string DisplayedText(std::string text);

// Texts that it says of itself, for people.
LoraMetadata ReadLoraMetadata(const weights::Metadata& metadata);

}  // namespace latentd::adapters
