// Runs any graph op by op in fp32 on the host, written for clarity: the oracle that the other
// backends and the passes are measured against. Of a node in fp16 or bf16 the result is rounded.
#pragma once

#include "core/backends/backend.h"

namespace latentd::backends::reference {

class ReferenceBackend : public Backend {
 public:
  ReferenceBackend();

  // Images NCHW, nothing fused; graphs in other layouts and with fused nodes run too.
  const graph::Target& target() const override { return target_; }
  std::string Fingerprint() const override;

  // The same few bytes for every graph: there is nothing to choose.
  absl::StatusOr<std::string> Plan(const graph::Graph& graph) const override;

  // The executables use no arena: intermediates are on the heap, each freed after its last use;
  // arena_bytes() says how many bytes that are at most.
  absl::StatusOr<std::unique_ptr<Executable>> LoadIf(std::shared_ptr<const graph::Graph> graph,
                                                     absl::string_view plan,
                                                     const weights::WeightSet& weights,
                                                     const Admission& admit) override;

  absl::StatusOr<MemoryNeeds> Predict(const graph::Graph& graph, absl::string_view plan,
                                      const weights::WeightSet& weights) const override;

 private:
  graph::Target target_;
};

}  // namespace latentd::backends::reference
