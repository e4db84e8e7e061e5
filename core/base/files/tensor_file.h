// Tensors of a request in a safetensors file, as programs hand them on: small, read whole and
// copied. Checkpoints have a reader of their own (core/weights/containers/safetensors.h).
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace latentd {

struct NamedTensor {
  std::string name;
  std::string dtype;           // as the format spells it: "F32", "F16", "BF16"
  std::vector<int64_t> shape;  // the outermost dimension first
  std::string data;            // little-endian, row by row
};

// The tensors of such a file, by name. INVALID_ARGUMENT: it is none; the message begins with
// `source`. Lengths of data are as the file says, and need not fit shapes.
absl::StatusOr<std::vector<NamedTensor>> ParseTensorFile(absl::string_view file,
                                                         absl::string_view source);

// The file of these tensors.
std::string TensorFile(absl::Span<const NamedTensor> tensors);

// The tensor of that name; null: there is none.
const NamedTensor* FindTensor(absl::Span<const NamedTensor> tensors, absl::string_view name);

}  // namespace latentd
