// A program with its kernels, weights and a place in the arena.
#pragma once

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "core/backends/cpu/arena.h"
#include "core/backends/cpu/bound_kernel.h"
#include "core/backends/cpu/plan.h"
#include "core/backends/executable.h"
#include "core/graph/recipes.h"
#include "core/weights/weight_set.h"

namespace latentd::backends::cpu {

// One result that an executable takes from the store, and where it goes: to a storage that kernels
// read as it is, or to the instruction that reads it packed.
struct WeightUse {
  int recipe;
  int storage;                    // -1: packed
  int instruction;                // -1: not packed
  weights::WeightFormat packing;  // with its bytes, of a plain result too
};
std::vector<WeightUse> WeightUses(const Program& program, absl::Span<const BoundKernel> kernels);

// Bytes that an executable holds beside arena and weights, about.
size_t OwnBytes(const graph::Graph& graph, absl::Span<const BoundKernel> kernels);

class CpuExecutable : public Executable {
 public:
  // One kernel for each instruction. Place and HoldWeights complete it.
  CpuExecutable(std::shared_ptr<const graph::Graph> graph, Program program,
                std::vector<BoundKernel> kernels, std::unique_ptr<Arena::Lease> lease, int threads);

  // REQUIRES: CheckMemory(values, memory) and a lease of that many bytes.
  void Place(const ArenaValues& values, const graph::MemoryPlan& memory);

  // Takes each recipe's result from the store in the forms that kernels read it in.
  absl::Status HoldWeights(const std::vector<graph::Recipe>& recipes,
                           const weights::WeightSet& weights);

  const std::vector<Port>& inputs() const override { return inputs_; }
  const std::vector<Port>& outputs() const override { return outputs_; }

  // Waits for a run that uses the arena now. Makes no heap request of 4 KiB or more.
  absl::Status Run(absl::Span<const device::Buffer> inputs,
                   absl::Span<device::Buffer> outputs) override;

  size_t arena_bytes() const override { return lease_->bytes(); }
  size_t own_bytes() const override { return OwnBytes(*graph_, kernels_); }
  std::vector<const void*> weights() const override;

  // For measurements: an executable's program, and one of its instructions alone, on what the last
  // Run left in the arena. REQUIRES: nothing else runs.
  const Program& program() const { return program_; }
  absl::Status RunInstruction(size_t index);

 private:
  absl::Status RunInArena(absl::Span<const device::Buffer> inputs,
                          absl::Span<device::Buffer> outputs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lease_->runs());

  std::shared_ptr<const graph::Graph> graph_;
  Program program_;
  std::vector<BoundKernel> kernels_;
  std::unique_ptr<Arena::Lease> lease_;
  const int threads_;
  std::vector<Port> inputs_, outputs_;
  std::vector<char*> storages_;           // address of each storage
  std::vector<char*> workspaces_;         // of each instruction
  std::vector<weights::WeightRef> held_;  // plain and packed
  std::vector<const void*> packed_;       // of each instruction, or null
};

}  // namespace latentd::backends::cpu
