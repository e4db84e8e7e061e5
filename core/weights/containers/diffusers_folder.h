// A diffusers folder is a checkpoint as save_pretrained writes it: a directory with
// model_index.json and one folder for each component (unet/, vae/, text_encoder/, tokenizer/,
// scheduler/, ...), which hold config.json and the tensors. Symbolic links are followed, so a
// snapshot folder of the Hugging Face cache is one.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/weights/containers/checkpoint_contents.h"

namespace latentd::weights {

// Advice for the end of an error about a path that is no checkpoint.
inline constexpr absl::string_view kWhatToPass =
    "pass a checkpoint as one .safetensors file, or a diffusers checkpoint directory, which has "
    "model_index.json and the folders unet, vae, text_encoder, tokenizer, scheduler, ...";

// Reads model_index.json only. vae_tiny, which is no component of a pipeline of diffusers', is
// there where the index does not speak of it and its folder is. Lacking are components that
// every pipeline has, and folders that the index names and that are missing.
absl::StatusOr<CheckpointContents> ReadDiffusersFolder(const std::string& path,
                                                       const Reading& reading);

// NOT_FOUND: a variant is asked for, and no component has tensors of it.
absl::Status CheckVariantExists(const std::string& path, const CheckpointContents& contents,
                                const std::string& variant);

}  // namespace latentd::weights
