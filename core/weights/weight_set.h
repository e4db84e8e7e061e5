// A WeightSet says where the tensors of a pipeline's components are: "unet/conv_in.weight" -> a
// tensor of a mapped safetensors file. It holds no memory of its own beyond the mappings;
// WeightStore holds what is made of the tensors.
//
// Frozen after loading; share as shared_ptr<const WeightSet>; any thread may read.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/digest.h"
#include "core/device/buffer.h"
#include "core/graph/graph.h"

namespace latentd::weights {

class WeightStore;

// A tensor as it lies in its file.
struct StoredTensor {
  device::Buffer data;  // read-only: it wraps the mapping, which it keeps alive
  std::string file;     // for messages
};

class WeightSet {
 public:
  // `store` must outlive the set and what was made from it.
  explicit WeightSet(WeightStore* store) : store_(store) {}

  // Adds the tensors of one component under "component/name". Older spellings are found under
  // today's names. REQUIRES: no tensor of that component was added before.
  void Add(absl::string_view component, absl::flat_hash_map<std::string, StoredTensor> tensors);

  // NOT_FOUND names the tensor.
  absl::StatusOr<StoredTensor> Find(absl::string_view name) const;

  // dtype on disk, kF32 for a tensor that is not there (Check will say so); for GraphBuilder.
  device::DType StoredDType(absl::string_view name) const;

  // OK iff every weight of the graph is here in the graph's shape; otherwise one error that names
  // every tensor that is missing or has another shape (and which), and ends in "and N more" when it
  // grows long.
  absl::Status Check(const graph::Graph& graph) const;

  WeightStore& store() const { return *store_; }

 private:
  WeightStore* store_;
  absl::flat_hash_map<std::string, StoredTensor> tensors_;
};

}  // namespace latentd::weights
