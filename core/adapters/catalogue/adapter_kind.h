// The kind of an adapter by the names and shapes of its tensors, whatever its file is called.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>

#include "core/pipeline/spec/request/adapter.h"
#include "core/weights/stored_tensor.h"

namespace latentd::adapters {

pipeline::AdapterKind KindOf(const weights::TensorMap& tensors);

// The reason why adapters of that kind are not served, as a sentence's end; empty: they are.
// `tensors` are those of the file.
std::string WhyNotServed(pipeline::AdapterKind kind, const weights::TensorMap& tensors);

}  // namespace latentd::adapters
