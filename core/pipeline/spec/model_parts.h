// Facts of a model beside its checkpoint's path, as flags give them: places of components, and what
// counts over the files (core/weights/containers/checkpoint_paths.h has more). Plain data.
#pragma once

#include <map>
#include <string>

namespace latentd::pipeline {

struct ModelParts {
  // Files or folders in the place of the checkpoint's own components, by name: "vae".
  std::map<std::string, std::string> components = {};
  // Another checkpoint, for what this one lacks or does not say; empty: none.
  std::string components_from = {};
  std::string prediction_type = {};  // "epsilon", "v_prediction", "sample"; empty: as files say
  bool ema = false;                  // the averaged weights of the UNet's single file

  bool operator==(const ModelParts&) const = default;
};

}  // namespace latentd::pipeline
