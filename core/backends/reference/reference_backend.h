// Runs any graph op by op in fp32 on the host, written for clarity: the oracle that the other
// backends and the passes are measured against. Of a node in fp16 or bf16 the result is rounded.
#pragma once

#include "core/backends/backend.h"

namespace latentd::backends::reference {

// Brings the threads that the calling one shares its work with in ATen, and sets their number to
// ATen's where it has not been set (core/backends/cpu/cpu_backend.h says when).
void BringThreads();

class ReferenceBackend : public Backend {
 public:
  ReferenceBackend();

  // Images NCHW, nothing fused; graphs in other layouts and with fused nodes run too.
  const graph::Target& target() const override { return target_; }
  device::Device& device() const override;
  std::string Fingerprint() const override;
  std::string WeightFingerprint() const override;

  // The same few bytes for every graph: there is nothing to choose.
  absl::StatusOr<Plan> MakePlan(const graph::Graph& graph) const override;

  absl::Status CheckPlan(const graph::Graph& graph, const Plan& plan) const override;

  // The executables use no arena: intermediates are on the heap, each freed after its last use;
  // ExecutableInfo::arena_bytes says how many bytes that are at most.
  absl::StatusOr<std::unique_ptr<Executable>> Load(std::shared_ptr<const graph::Graph> graph,
                                                   const Plan& plan,
                                                   const weights::WeightSet& weights) override;

  // Plain results, and no others.
  absl::StatusOr<size_t> MakingBytes(const graph::Graph& recipe,
                                     absl::Span<const device::ConstBuffer> host_sources,
                                     const weights::WeightFormat& format) const override;
  absl::Status MakeWeight(const graph::Graph& recipe, absl::Span<const device::ConstBuffer> sources,
                          absl::string_view form, const device::Buffer& to,
                          device::Stream& stream) override;

 private:
  graph::Target target_;
};

}  // namespace latentd::backends::reference
