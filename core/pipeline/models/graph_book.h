// Handles of planned graphs: the models' own, those over its LoRAs, and those of networks beside
// them.
//
// Any thread may call any method.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/pipeline/graphs/adapter_sets.h"
#include "core/pipeline/graphs/nets.h"
#include "core/pipeline/models/served_models.h"
#include "core/pipeline/plan/plan.h"

namespace latentd::pipeline {

class GraphBook {
 public:
  using IfUnknown = ModelGraphs::IfUnknown;

  // Graphs that a plan's adapters bring: over the model's own; null: it has no LoRAs. And those of
  // its controls and image prompts, in order.
  struct Brought {
    AdapterSets::Graphs adapted;
    std::vector<Nets::Graphs> controls;
    std::vector<Nets::Graphs> image_prompts;
  };

  // Both must outlive it. Null: there are no adapters.
  GraphBook(const ServedModels& models, AdapterSets* adapters)
      : models_(models), adapters_(adapters) {}

  // Handles of graphs of models, in order. An error: one cannot be built, or may not.
  absl::StatusOr<std::vector<GraphHandle>> HandlesOf(absl::Span<const PlannedGraph> graphs,
                                                     IfUnknown unknown) const;

  // Handles of all graphs that the plan's images cannot be drawn without. Those of its adapters are
  // made where they are not known, which reads files, and else refused, as one is that cannot be
  // built; kModels has those of the models without any.
  enum class Of : uint8_t { kAdapters, kModels };
  absl::StatusOr<std::vector<GraphHandle>> HandlesOf(const Plan& plan, IfUnknown unknown,
                                                     Of of = Of::kAdapters) const;
  // The same of those that they can do without.
  absl::StatusOr<std::vector<GraphHandle>> DispensableOf(const Plan& plan, IfUnknown unknown) const;

  absl::StatusOr<Brought> BroughtBy(const Plan& plan, IfUnknown unknown) const;

 private:
  absl::StatusOr<AdapterSets::Graphs> AdaptedGraphsOf(const Plan& plan, IfUnknown unknown) const;
  absl::StatusOr<std::vector<Nets::Graphs>> ControlGraphsOf(const Plan& plan,
                                                            IfUnknown unknown) const;
  absl::StatusOr<std::vector<Nets::Graphs>> ImagePromptGraphsOf(const Plan& plan,
                                                                IfUnknown unknown) const;
  absl::StatusOr<std::vector<GraphHandle>> HandlesOver(const Brought& brought, const Plan& plan,
                                                       absl::Span<const PlannedGraph> graphs,
                                                       IfUnknown unknown) const;

  const ServedModels& models_;
  AdapterSets* const adapters_;
};

}  // namespace latentd::pipeline
