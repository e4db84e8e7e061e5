// LoRAs that a model has from the start (ModelParts::loras): read, and merged into its weights.
//
// Thread-safe: free functions without state.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/pipeline/spec/models/applied_lora.h"
#include "core/pipeline/spec/models/model_table.h"
#include "core/weights/weight_set.h"

namespace latentd::pipeline {

struct ModelLoras {
  std::shared_ptr<const weights::WeightSet> weights;  // the model's own where there are none
  std::vector<AppliedLora> applied;                   // in the order of the row's
  std::vector<std::string> warnings;                  // sentences that name the files
};

// The row's LoRAs over `weights`, which are all of the model's. Errors name the flag, the file and
// what in it does not belong to the model.
absl::StatusOr<ModelLoras> ApplyLoras(const ModelRow& row,
                                      std::shared_ptr<const weights::WeightSet> weights);

// "the base has the LoRA film, weight 0.8: it changes 722 weights; ..." for logs.
std::string Describe(const ModelRow& row, const AppliedLora& lora);

}  // namespace latentd::pipeline
