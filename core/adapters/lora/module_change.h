// Changes of a module's weights, made of the tensors that a file has for it, whose shapes are
// compared with the module's, and settled.
//
// Thread-safe: free functions without state.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "core/adapters/lora/lora.h"
#include "core/adapters/lora/model_modules.h"
#include "core/adapters/lora/module_delta.h"
#include "core/adapters/lora/peft_scales.h"

namespace latentd::adapters {

struct ModuleChange {
  std::vector<WeightChange> changes;
  bool has_alpha_zero = false;  // and no magnitude, so that nothing changes
  bool ignores_alpha = false;   // LoKr of two whole factors has none: it is not what the file says
  bool is_alpha_alone = false;  // there is nothing beside it
};

// Changes of the modules, of which there are several where the tensors' rows are theirs one after
// the other. INVALID_ARGUMENT names the tensor, and the shape that would be right.
// REQUIRES: at least one module, and those of one shape; one tensor.
absl::StatusOr<ModuleChange> MakeChanges(const std::vector<const Module*>& modules,
                                         const ModuleTensors& tensors, const PeftScales& peft);

}  // namespace latentd::adapters
