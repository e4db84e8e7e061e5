// The delta of one weight, from the tensors that a file has for its module: which kind it is, and
// their shapes compared with the weight's and settled as lora.h says.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "core/adapters/lora/lora.h"
#include "core/adapters/lora/lora_keys.h"
#include "core/device/shape.h"
#include "core/weights/stored_tensor.h"

namespace latentd::adapters {

// Ranks above this are in no LoRA: SDXL's widest layer has 10240 features.
inline constexpr int64_t kMostRank = 4096;

struct NamedTensor {
  std::string key;  // as the file has it
  weights::StoredTensor tensor;
};

// By role.
using ModuleTensors = absl::btree_map<Role, NamedTensor>;

// "f16[32,640]": dtype and shape.
std::string TypeOf(const weights::StoredTensor& tensor);

// The tensor in a shape that differs from its own in ones at the end alone. INVALID_ARGUMENT names
// both.
absl::StatusOr<weights::StoredTensor> InShape(const NamedTensor& named, const device::Shape& shape);

struct ModuleDelta {
  Delta delta;
  // By which alpha is divided; 0: of a kind that has no alpha.
  int64_t rank = 0;
};

// Nullopt: the tensors have no delta of the weight, which has `shape`. INVALID_ARGUMENT names a
// tensor that is missing, or of another shape, and the one that would be right; or two kinds.
absl::StatusOr<std::optional<ModuleDelta>> FindDelta(const ModuleTensors& tensors,
                                                     const device::Shape& shape);

}  // namespace latentd::adapters
