// Places of a model's components beside its checkpoint, as flags give them
// (core/weights/containers/checkpoint_paths.h has more). Plain data.
#pragma once

#include <map>
#include <string>

namespace latentd::pipeline {

struct ModelParts {
  // Files or folders in the place of the checkpoint's own components, by name: "vae".
  std::map<std::string, std::string> components = {};
  // Another checkpoint, for what this one lacks or does not say; empty: none.
  std::string components_from = {};
};

}  // namespace latentd::pipeline
