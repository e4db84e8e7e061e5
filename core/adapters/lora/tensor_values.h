// Values of a file's tensors that the reader of LoRAs looks at itself.
//
// Thread-safe: free functions without state.
#pragma once

#include <optional>

#include "core/weights/stored_tensor.h"

namespace latentd::adapters {

// The one value of a tensor with one element, of floats or whole numbers. Nullopt: it has none, or
// others; it is not finite; or it is of a dtype that is not read (StoredTensor::unusable_dtype).
std::optional<double> ReadScalar(const weights::StoredTensor& tensor);

// True if no value is an infinity or NaN. Reads all of it. REQUIRES: it has memory, and is of
// floats.
bool IsFinite(const weights::StoredTensor& tensor);

// True of the dtypes that a delta can be made of.
bool HasFloats(const weights::StoredTensor& tensor);

// A tensor of doubles rounded to f32, in memory of its own; others as they are. REQUIRES:
// HasFloats.
weights::StoredTensor InFloats(weights::StoredTensor tensor);

}  // namespace latentd::adapters
