// Tensors of a file held against a network that they are to be the weights of.
//
// Thread-safe: free functions without state.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"
#include "core/weights/stored_tensor.h"

namespace latentd::adapters {

// OK if the tensors are just the graph's weights, whose names begin with "component/", but for
// those that no network reads (counters, schedules). INVALID_ARGUMENT names some that are missing,
// are shaped otherwise, or are no part of it. `title`: "a ControlNet for it".
absl::Status CheckNetworkTensors(const graph::Graph& network, absl::string_view component,
                                 absl::string_view title, const weights::TensorMap& tensors);

}  // namespace latentd::adapters
