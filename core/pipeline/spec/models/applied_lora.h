// Facts of a LoRA that a model has, for people: plain data.
#pragma once

#include <string>

#include "core/pipeline/spec/models/model_parts.h"

namespace latentd::pipeline {

struct AppliedLora {
  LoraFile file;
  std::string name;  // the file's, without what says its format
  int changes = 0;   // number of weights that it changes
  // Texts of its file; empty: it says none.
  std::string trigger_phrase, base_model;
};

}  // namespace latentd::pipeline
