// A set of LoRAs as low-rank paths of rows: what a slot of a PathPool is filled with
// (core/pipeline/lanes/path_pool.h), and the factors that an image of the set brings to its rows.
//
// Immutable once made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/adapters/lora/merge_loras.h"
#include "core/graph/low_rank_paths.h"
#include "core/weights/weight_store.h"

namespace latentd::pipeline {

// Low-rank paths that steps of a model may have.
struct StepPaths {
  int slots = 0;  // sets that rows of one lane have at most; 0: steps have none
  int ranks = 0;  // ranks of a set at most, at each site
  graph::PathSites at;

  graph::PathLayout layout() const { return {at.sites, ranks}; }
  // Bytes of a pool.
  int64_t pool_bytes() const { return slots * layout().slot_elements * device::SizeOf(at.dtype); }
};

struct AdapterPaths {
  std::string key;              // names the matrices by their contents
  weights::WeightRef matrices;  // [PathLayout::slot_elements], on the store's device
  std::vector<float> scales;    // [PathLayout::scale_elements]
};

// Makes the matrices on the store's device. In the order of the LoRAs' names, so that the order in
// which a request names them is of no account. `user` is told of as theirs. Errors as PathMatrices'
// and WeightStore::Get's.
absl::StatusOr<std::shared_ptr<const AdapterPaths>> MakeAdapterPaths(
    std::vector<adapters::WeightedLora> loras, const StepPaths& paths, const std::string& user,
    weights::WeightStore& store);

}  // namespace latentd::pipeline
