// The paths that a checkpoint is read from, as flags give them. Plain data.
#pragma once

#include <string>

#include "absl/container/btree_map.h"

namespace latentd::weights {

// The paths that a checkpoint is read from. All but the first may be empty.
struct CheckpointPaths {
  std::string path;  // a diffusers directory, or a single file

  // A variant of files in directories: "fp16" reads *.fp16.safetensors, and plain files for a
  // component that has none of that variant, as diffusers does; of `path`, some component has to
  // have one. Empty: the files without a suffix and, where there are none, those of the variant
  // fp16.
  std::string variant = {};

  // Components in the place of the checkpoint's own, by name ("unet", "vae", "vae_tiny",
  // "text_encoder", "text_encoder_2"): a file of it, its folder, or a checkpoint of which it is a
  // part. Their flags are called so, with dashes.
  absl::btree_map<std::string, std::string> components = {};

  // Another checkpoint, which supplies components that `path` lacks.
  std::string components_from = {};

  // "epsilon", "v_prediction" or "sample": how the UNet predicts, whatever its files say; empty: as
  // they say.
  std::string prediction_type = {};
  // Takes the averaged weights that the UNet's single file has beside its own.
  bool ema = false;

  std::string flag = "base";  // the flag of `path`, for messages: "refiner", "model=anime"
};

}  // namespace latentd::weights
