// A program with its kernels, weights and a place in the arena; bound to memory, a session.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/backends/cpu/arena.h"
#include "core/backends/cpu/bound_kernel.h"
#include "core/backends/cpu/plan.h"
#include "core/backends/executable.h"
#include "core/device/host_device.h"
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
size_t OwnBytes(const graph::Graph& graph, const Program& program,
                absl::Span<const BoundKernel> kernels);

class CpuExecutable : public Executable {
 public:
  // One kernel for each instruction. Place and HoldWeights complete it. `device` must outlive it.
  CpuExecutable(std::shared_ptr<const graph::Graph> graph, Program program,
                std::vector<BoundKernel> kernels, std::unique_ptr<Arena::Lease> lease, int threads,
                device::HostDevice& device);

  // REQUIRES: lowering::CheckMemory(values, memory) and a lease of that many bytes.
  void Place(const lowering::ArenaValues& values, const graph::MemoryPlan& memory);

  // Takes each recipe's result from the store in the forms that kernels read it in.
  absl::Status HoldWeights(const std::vector<graph::Recipe>& recipes,
                           const weights::WeightSet& weights);

  const ExecutableInfo& info() const override { return info_; }
  device::Device& device() const override { return device_; }

  absl::StatusOr<std::unique_ptr<Session>> Bind(absl::Span<const device::ConstBuffer> inputs,
                                                absl::Span<const device::Buffer> outputs) override;

  const Program& program() const { return program_; }

 private:
  friend class CpuSession;

  std::shared_ptr<const graph::Graph> graph_;
  Program program_;
  std::vector<BoundKernel> kernels_;
  std::unique_ptr<Arena::Lease> lease_;
  const int threads_;
  device::HostDevice& device_;
  ExecutableInfo info_;
  std::vector<char*> storages_;           // address of each storage; null where sessions bind it
  std::vector<char*> workspaces_;         // of each instruction
  std::vector<weights::WeightRef> held_;  // plain and packed
  std::vector<const void*> packed_;       // of each instruction, or null
};

class CpuSession : public Session {
 public:
  // `storages`: the address of each storage of the executable's program.
  CpuSession(const CpuExecutable& executable, std::vector<char*> storages)
      : executable_(executable), storages_(std::move(storages)) {}

  // Waits for a run that uses the arena now. Makes no heap request of 4 KiB or more.
  absl::Status Enqueue(device::Stream& stream) override;

  // For measurements: one of the instructions alone, on what the last run left in the arena.
  // REQUIRES: nothing else runs.
  absl::Status RunInstruction(size_t index);

 private:
  absl::Status Run();

  const CpuExecutable& executable_;
  const std::vector<char*> storages_;
};

}  // namespace latentd::backends::cpu
