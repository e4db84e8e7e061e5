// Evaluates a weight recipe, or any graph without inputs, on the host: what this backend makes
// weights with, and what passes fold literals with.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/device/buffer.h"
#include "core/graph/graph.h"

namespace latentd::backends::reference {

// The one output of `recipe`, in memory of its own unless it is a source as it came (which the
// result then keeps alive). `sources` are bound to the graph's weights, in order, and must have
// as many elements; a source's dtype is its own. INVALID_ARGUMENT says what does not fit.
// Thread-safe.
absl::StatusOr<device::ConstBuffer> EvaluateRecipe(const graph::Graph& recipe,
                                                   absl::Span<const device::ConstBuffer> sources);

// The most bytes that EvaluateRecipe holds at a time, its result among them and its sources not; 0
// where the result is a source as it came.
size_t EvaluationBytes(const graph::Graph& recipe);

// Names all that its results depend on beside recipe and sources: LibTorch's version and the
// instruction set that it chose on this machine.
std::string EvaluatorVersion();

}  // namespace latentd::backends::reference
