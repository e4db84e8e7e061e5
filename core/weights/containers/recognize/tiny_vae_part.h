// A tiny VAE (TAESD) in one file: by diffusers' names, or by its own, which are places in two
// sequences of layers: both in one file under a prefix each, or the decoder's alone.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/weights/source.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

// True if names are a tiny VAE's, in any of these forms.
bool IsTinyVae(const TensorMap& tensors);

struct TinyVaePart {
  std::string config;  // config.json
  SourceMap sources;   // without the encoder's where the file has none
};

// INVALID_ARGUMENT, beginning with `path`: an encoder alone, one of another model's latents, or
// tensors that are missing, misshapen or left over.
absl::StatusOr<TinyVaePart> ReadTinyVae(const std::string& path, const TensorMap& tensors);

}  // namespace latentd::weights
