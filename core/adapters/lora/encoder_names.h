// Names that files of LoRAs have for the modules of a text encoder of CLIP.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace latentd::adapters {

// All spellings with dots, the module's own included, of a module by its path in transformers:
// "text_model.encoder.layers.0.self_attn.q_proj".
std::vector<std::string> EncoderSpellings(absl::string_view module);

// OpenCLIP keeps query, key and value of a layer in one: the path of that one, by the module's path
// in transformers, if it is the query; else empty.
std::string OpenClipProjection(absl::string_view module);

}  // namespace latentd::adapters
