// A weight of a WeightSet: a tensor as it is stored, or what a small graph makes of stored tensors
// (a slice, a transpose, a sum, a dequantisation).
//
// A value; copies share the tensors' memory and the graph.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

struct Source {
  // The tensor as it is stored.
  static Source Of(StoredTensor tensor) { return {{std::move(tensor)}, nullptr}; }

  std::vector<StoredTensor> from;
  // Its weights are `from`, in order; null: from[0] as it is. Compose makes it.
  std::shared_ptr<const graph::Graph> make;

  device::DType dtype() const;
  const device::Shape& shape() const;

  // All that its bytes depend on. Reads what has no digest yet.
  std::string Content() const;
};

// By name.
using SourceMap = absl::flat_hash_map<std::string, Source>;

// OK iff the source can stand for the weight: it has its shape, and its dtype, or any other one
// where the weight is f32. INVALID_ARGUMENT says both types.
absl::Status CheckFits(const graph::Node& weight, const Source& source);

// Puts `operands` in the place of the weights, in order, of `recipe`: a graph of weights and
// constants with one output. The result has a graph, of stored tensors alone, each of them once.
//
// An operand of another dtype than the weight is cast; f16, bf16 and 8-bit floats that become f32
// and something else after that are cast once, or not at all: nothing is lost on the way through
// f32, so that the bytes are the same. INVALID_ARGUMENT: an operand that does not fit, or another
// number of them.
absl::StatusOr<Source> Compose(const graph::Graph& recipe, absl::Span<const Source> operands);

}  // namespace latentd::weights
