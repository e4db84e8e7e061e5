// A program with its kernels, weights and a place in the arena; bound to memory, a session.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/backends/cpu/binding/arena.h"
#include "core/backends/cpu/binding/bound_program.h"
#include "core/backends/executable.h"
#include "core/device/host_device.h"
#include "core/weights/weight_set.h"

namespace latentd::backends::cpu {

// Bytes that an executable holds beside arena and weights, about.
size_t OwnBytes(const graph::Graph& graph, const BoundProgram& bound);

class CpuExecutable : public Executable {
 public:
  // HoldWeights completes it. `device` must outlive it. REQUIRES: the program's memory plan is one
  // for it (lowering::CheckMemory), and a lease of that many bytes.
  CpuExecutable(Programs::Program program, std::unique_ptr<Arena::Lease> lease, int threads,
                device::HostDevice& device);

  absl::Status HoldWeights(const weights::WeightSet& weights);

  const ExecutableInfo& info() const override { return info_; }
  device::Device& device() const override { return device_; }

  absl::StatusOr<std::unique_ptr<Session>> Bind(absl::Span<const device::ConstBuffer> inputs,
                                                absl::Span<const device::Buffer> outputs) override;

  const Program& program() const { return program_->bound.program; }

 private:
  friend class CpuSession;

  // Shared with executables over other weights; runs of one arena, and so of all, take turns.
  const Programs::Program program_;
  const std::unique_ptr<Arena::Lease> lease_;
  const int threads_;
  device::HostDevice& device_;
  ExecutableInfo info_;
  lowering::Addresses addresses_;         // without those that sessions bind
  std::vector<weights::WeightRef> held_;  // plain and packed
};

class CpuSession : public Session {
 public:
  // With all addresses of the executable's program.
  CpuSession(const CpuExecutable& executable, lowering::Addresses addresses)
      : executable_(executable), addresses_(std::move(addresses)) {}

  // Waits for a run that uses the arena now. Makes no heap request of 4 KiB or more.
  absl::Status Enqueue(device::Stream& stream) override;

  // For measurements: one of the instructions alone, on what the last run left in the arena.
  // REQUIRES: nothing else runs.
  absl::Status RunInstruction(size_t index);

 private:
  absl::Status Run();

  const CpuExecutable& executable_;
  const lowering::Addresses addresses_;
};

}  // namespace latentd::backends::cpu
