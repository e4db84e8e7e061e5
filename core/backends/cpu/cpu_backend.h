// Runs graphs on the host's processor: convolutions and matrix products on oneDNN with packed
// weights, everything else in loops of its own, compiled for several instruction sets.
//
// Made to be fast in f32, and in bf16 where oneDNN has AMX (there a step of the demo model and a
// decode take about half of f32's time, on two cores of a Xeon). With avx512_bf16 alone bf16 takes
// twice f32's time, for half of its weights' memory. Elsewhere bf16, and f16 everywhere, is right
// and not fast.
//
// How an instruction is computed is a rule of its shape (algorithms.h); nothing is timed.
//
// Plans: plan.h. From a graph to a run: core/backends/lowering, bound_kernel.h, cpu_executable.h.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "core/backends/backend.h"
#include "core/backends/cpu/binding/arena.h"
#include "core/backends/cpu/binding/bound_kernel.h"
#include "core/backends/cpu/binding/bound_program.h"
#include "core/device/host_device.h"

namespace latentd::backends::cpu {

struct CpuOptions {
  // OpenMP threads to plan, load and run on, whichever thread calls; 0: as many as OpenMP gives the
  // caller of Create (the processors that the process may run on, or OMP_NUM_THREADS).
  int threads = 0;
  // Instruction set of the backend's own loops: "avx512", "avx2", "baseline"; empty: the best one.
  std::string instruction_set;
  // The most that intermediates may ever take, which addresses are reserved for; 0: the machine's
  // memory.
  int64_t memory_bytes = 0;
  // The device that executables run on; null: device::Host(). Must outlive the backend.
  device::HostDevice* device = nullptr;
};

// True if bf16 is faster than f32 here, and not only smaller: this machine has AMX and grants it.
// f16 never is on a CPU.
bool HasFastBf16();

// Brings the threads that the calling one shares its work with when it computes, as many as
// CpuOptions::threads says, for the rest of its life. For each thread that makes or runs what the
// backend loads, before there is work to lose: OpenMP ends a process that gets no more threads.
void BringThreads(int threads);

class CpuBackend : public Backend {
 public:
  // RESOURCE_EXHAUSTED: no addresses for the arena; INVALID_ARGUMENT: an instruction set that this
  // machine does not have.
  static absl::StatusOr<std::unique_ptr<CpuBackend>> Create(const CpuOptions& options = {});

  device::Device& device() const override { return device_; }

  // Images NHWC, and every fused kind that there is.
  const graph::Target& target() const override { return target_; }
  std::string Fingerprint() const override;
  std::string WeightFingerprint() const override;  // the same for any number of threads

  // UNIMPLEMENTED for casts to integers.
  absl::StatusOr<Plan> MakePlan(const graph::Graph& graph) const override;

  absl::Status CheckPlan(const graph::Graph& graph, const Plan& plan) const override;

  // All executables share one arena; a weight that oneDNN packs is held packed only.
  absl::StatusOr<std::unique_ptr<Executable>> Load(std::shared_ptr<const graph::Graph> graph,
                                                   const Plan& plan,
                                                   const weights::WeightSet& weights) override;

  // On kernels of its own, in memory beside the arena, so that no run waits for it.
  absl::StatusOr<size_t> MakingBytes(const graph::Graph& recipe,
                                     absl::Span<const device::ConstBuffer> host_sources,
                                     const weights::WeightFormat& format) const override;
  absl::Status MakeWeight(const graph::Graph& recipe, absl::Span<const device::ConstBuffer> sources,
                          absl::string_view form, const device::Buffer& to,
                          device::Stream& stream) override;

  // Bytes of the arena now.
  size_t arena_bytes() const { return arena_->bytes(); }

 private:
  CpuBackend(device::HostDevice* device, std::shared_ptr<Arena> arena, Machine machine);

  graph::Target target_;
  device::HostDevice& device_;
  std::shared_ptr<Arena> arena_;
  Machine machine_;
  Programs programs_;
};

}  // namespace latentd::backends::cpu
