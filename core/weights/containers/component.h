// A Component is a network, tokenizer or scheduler of a checkpoint by its class, as
// model_index.json names it: ["diffusers", "UNet2DConditionModel"]. Plain data.
#pragma once

#include <string>

namespace latentd::weights {

struct Component {
  std::string library;
  std::string class_name;
  bool operator==(const Component&) const = default;
};

}  // namespace latentd::weights
