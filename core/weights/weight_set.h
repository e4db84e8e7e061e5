// A WeightSet says what the weights of a pipeline's components come from: "unet/conv_in.weight" ->
// a tensor of a mapped safetensors file, or what is made of several (source.h). It holds no memory
// of its own beyond the mappings; WeightStore holds what is made of the tensors.
//
// Frozen after loading; share as shared_ptr<const WeightSet>; any thread may read.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/device/shape.h"
#include "core/graph/graph.h"
#include "core/weights/source.h"
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

  // Everything that `base` has, but for the names that `overlay` has ("unet/conv_in.weight"): there
  // its sources, which may be composed of the base's (a LoRA's: W + s * B * A), and of them are
  // marked then (StoredTensor::of_base). It is frozen.
  static std::shared_ptr<const WeightSet> Over(std::shared_ptr<const WeightSet> base,
                                               SourceMap overlay, std::string name = "");

  // Adds the weights of one component under "component/name", those of doubles rounded to float32,
  // in memory of their own. REQUIRES: no weight of that component was added before.
  void Add(absl::string_view component, SourceMap sources);
  // The same of tensors, those of 8-bit floats with the scale beside them (scaled_source.h).
  void Add(absl::string_view component, const TensorMap& tensors);

  // NOT_FOUND names the weight.
  absl::StatusOr<Source> Find(absl::string_view name) const;

  // Shapes of all its weights by their names, in their order.
  absl::btree_map<std::string, device::Shape> Shapes() const;

  // OK iff every weight of the graph is here and fits (CheckFits); otherwise one error that names
  // every weight that is missing or differs (and in what), and ends in "and N more" when it grows
  // long; or FAILED_PRECONDITION, reason CHECKPOINT_CHANGED. What the graph does not want is
  // ignored.
  absl::Status Check(const graph::Graph& graph) const;

  // Digest of the contents of the graph's weights, in order: equal for two sets whose sources are,
  // whatever they are called and whichever files they are in. FAILED_PRECONDITION, reason
  // CHECKPOINT_CHANGED: one of the files was edited.
  absl::StatusOr<Digest> ContentDigest(const graph::Graph& graph) const;

  // The open files that its tensors are in, each once.
  std::vector<std::shared_ptr<const CheckpointFile>> Files() const;

  WeightStore& store() const { return *store_; }

 private:
  void AddSource(std::string name, Source source);
  const Source* Lookup(absl::string_view name) const;
  // OK if none of the files of the graph's weights was edited.
  absl::Status CheckFiles(const graph::Graph& graph) const;
  // Place where a missing tensor was looked for, as the end of a sentence.
  std::string PlaceOf(absl::string_view name) const;

  WeightStore* store_;
  std::string name_;
  std::shared_ptr<const WeightSet> base_;  // has the names that are not in `sources_`; null: none
  SourceMap sources_;
};

}  // namespace latentd::weights
