// A WeightSet says where the tensors of a pipeline's components are: "unet/conv_in.weight" -> a
// tensor of a mapped safetensors file. It holds no memory of its own beyond the mappings;
// WeightStore holds what is made of the tensors.
//
// Frozen after loading; share as shared_ptr<const WeightSet>; any thread may read.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/device/dtype.h"
#include "core/graph/graph.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

class WeightStore;

class WeightSet {
 public:
  // `store` must outlive the set and what was made from it. `name` is for reports of who uses what:
  // "base", "refiner".
  explicit WeightSet(WeightStore* store, std::string name = "")
      : store_(store), name_(std::move(name)) {}

  const std::string& name() const { return name_; }

  // Adds the tensors of one component under "component/name", those of doubles rounded to float32,
  // in memory of their own. REQUIRES: no tensor of that component was added before.
  void Add(absl::string_view component, const TensorMap& tensors);

  // Older spellings are found under today's names: a text encoder's tensors with or without the
  // prefix "text_model.", and attention of VAEs of the SD 1.5 age (query, key, value, proj_attn for
  // to_q, to_k, to_v, to_out.0). NOT_FOUND names the tensor; INVALID_ARGUMENT one whose dtype
  // graphs do not have.
  absl::StatusOr<StoredTensor> Find(absl::string_view name) const;

  // dtype on disk, kF32 for a tensor that is not there (Check will say so); for GraphBuilder.
  device::DType StoredDType(absl::string_view name) const;

  // OK iff every weight of the graph is here in the graph's dtype and shape; otherwise one error
  // that names every tensor that is missing or differs (and in what), and ends in "and N more" when
  // it grows long; or FAILED_PRECONDITION, reason CHECKPOINT_CHANGED. Tensors that the graph does
  // not want are ignored. The shapes [a, b] and [a, b, 1, 1] are the same: old VAEs store attention
  // as 1x1 convolutions.
  absl::Status Check(const graph::Graph& graph) const;

  // Of the contents of the graph's weights, in order: equal for two sets whose tensors are,
  // whatever they are called and whichever files they are in. FAILED_PRECONDITION, reason
  // CHECKPOINT_CHANGED: one of the files was edited.
  absl::StatusOr<Digest> ContentDigest(const graph::Graph& graph) const;

  // The open files that its tensors are in, each once.
  std::vector<std::shared_ptr<const CheckpointFile>> Files() const;

  WeightStore& store() const { return *store_; }

 private:
  const StoredTensor* Lookup(absl::string_view name) const;
  // That none of the files of the graph's weights was edited.
  absl::Status CheckFiles(const graph::Graph& graph) const;
  // Where a missing tensor was looked for, as the end of a sentence.
  std::string PlaceOf(absl::string_view name) const;

  WeightStore* store_;
  std::string name_;
  TensorMap tensors_;
};

// OK iff what was found fits the graph's weight in dtype and shape; INVALID_ARGUMENT says both
// types, and what was not found keeps its error.
absl::Status CheckTensor(const graph::Node& weight, const absl::StatusOr<StoredTensor>& found);

}  // namespace latentd::weights
