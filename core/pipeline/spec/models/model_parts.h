// Facts of a model beside its checkpoint's path, as flags give them: places of components, and what
// counts over the files (core/weights/containers/checkpoint_paths.h has more). Plain data.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace latentd::pipeline {

// A LoRA that a model has from the start: its file or folder, and factors of all that it changes in
// the UNet and in the text encoders.
struct LoraFile {
  std::string path;
  double unet_weight = 1, text_encoder_weight = 1;

  bool operator==(const LoraFile&) const = default;
};

struct ModelParts {
  // Files or folders in the place of the checkpoint's own components, by name: "vae".
  std::map<std::string, std::string> components = {};
  // Another checkpoint, for what this one lacks or does not say; empty: none.
  std::string components_from = {};
  std::string prediction_type = {};  // "epsilon", "v_prediction", "sample"; empty: as files say
  bool ema = false;                  // the averaged weights of the UNet's single file
  std::vector<LoraFile> loras = {};  // merged into the weights, each of them

  bool operator==(const ModelParts&) const = default;
};

}  // namespace latentd::pipeline
