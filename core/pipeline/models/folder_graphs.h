// Graphs that buckets have ready for what the folder of adapters has: steps that read ControlNets
// and IP-Adapters, and these networks themselves.
//
// Any thread may call any method.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/pipeline/graphs/adapter_sets.h"
#include "core/pipeline/models/needed_graphs.h"
#include "core/pipeline/models/served_models.h"

namespace latentd::pipeline {

class FolderGraphs {
 public:
  // All must outlive it. Null: there are no adapters.
  FolderGraphs(const ServedModels& models, const NeededGraphs& needed, AdapterSets* adapters)
      : models_(models), needed_(needed), adapters_(adapters) {}

  // Steps of that size and so many rows that read what ControlNets of the folder add, and those
  // that read images by its IP-Adapters, but none that reads both. Nothing where the folder has
  // none for the leader.
  absl::StatusOr<std::vector<GraphHandle>> StepsOf(ModelId leader, Size bucket, int rows) const;
  // Graphs of the networks: of the first of each shape, and of no more than Nets::kMostNets of each
  // kind. Reads their headers. A net that cannot be declared is passed over: a request that names
  // it is told why.
  std::vector<GraphHandle> NetsOf(ModelId leader, absl::Span<const Size> buckets) const;

 private:
  // ControlNets that the leader can draw with, and of those one of each shape.
  std::vector<Control> ControlsOf(ModelId leader) const;
  std::vector<Control> ControlsOfEachShape(ModelId leader) const;
  // Adds the net's graphs for one size.
  void AddNetGraphs(NetGraphs& net, ModelId leader, Size bucket,
                    std::vector<GraphHandle>& all) const;
  // IP-Adapters that the leader can draw with.
  std::vector<ImagePrompt> ImagePromptsOf(ModelId leader) const;
  // One of each shape, as many as are kept at most.
  std::vector<ImagePrompt> ImagePromptsOfEachShape(ModelId leader) const;
  void AddIpAdapterGraphs(ModelId leader, std::vector<GraphHandle>& all) const;

  const ServedModels& models_;
  const NeededGraphs& needed_;
  AdapterSets* const adapters_;
};

}  // namespace latentd::pipeline
