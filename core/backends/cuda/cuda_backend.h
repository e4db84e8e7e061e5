// Runs graphs on an NVIDIA GPU: matrix products by cuBLASLt, convolutions and attention by cuDNN,
// everything else by kernels of its own; a session that runs more than once becomes a captured
// graph.
//
// Made to be fast in bf16 and f16. f32 is computed without TF32 and is there to be compared with,
// unless the options say otherwise. The vendor's libraries are loaded by Create, from where the
// system's loader finds them.
//
// Plans: plan.h. From a graph to a run: core/backends/lowering, bound_program.h, cuda_executable.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/backends/backend.h"
#include "core/backends/cuda/arena.h"
#include "core/backends/cuda/cuda_executable.h"
#include "core/backends/cuda/libraries/cublas_lt.h"
#include "core/backends/cuda/libraries/cudnn.h"
#include "core/backends/cuda/recipe.h"
#include "core/device/cuda/cuda_device.h"

namespace latentd::backends::cuda {

struct CudaOptions {
  int ordinal = 0;  // number of the GPU
  // Starts a program that calls RunTrialProgram, where algorithms are tried; empty: they are tried
  // here, and one that faults ends the device for this process.
  std::vector<std::string> trial_command = {};
  // Allows f32 operands of matrix products, convolutions and attention to be rounded to TF32 (10
  // bits of mantissa). Sums, all else and stored values are f32 all the same.
  bool tf32 = false;
};

// The GPU of that number has failed, and others of the process have not: CUDA is asked for nothing
// more of it, also where what it has is let go of. Any thread.
void GiveUp(int ordinal);

class CudaBackend : public Backend {
 public:
  // FAILED_PRECONDITION says what to do: no driver or one that is too old, no GPU of that number,
  // one below compute capability 8.0, or no cuBLASLt or cuDNN.
  static absl::StatusOr<std::unique_ptr<CudaBackend>> Create(CudaOptions options = {});

  device::Device& device() const override { return *device_; }
  const graph::Target& target() const override { return target_; }
  std::string Fingerprint() const override;
  std::string WeightFingerprint() const override;

  Findings* findings() override { return findings_.get(); }

  // Matrix products of a shape that nothing was found out about are timed, which takes the GPU from
  // what else it does for some milliseconds; cuDNN's plans are the first that compute right.
  // UNIMPLEMENTED for casts to integers.
  absl::StatusOr<Plan> MakePlan(const graph::Graph& graph) const override;

  absl::Status CheckPlan(const graph::Graph& graph, const Plan& plan) const override;

  // All executables share one arena.
  absl::StatusOr<std::unique_ptr<Executable>> Load(std::shared_ptr<const graph::Graph> graph,
                                                   const Plan& plan,
                                                   const weights::WeightSet& weights) override;

  absl::StatusOr<size_t> MakingBytes(const graph::Graph& recipe,
                                     absl::Span<const device::ConstBuffer> host_sources,
                                     const weights::WeightFormat& format) const override;
  absl::Status MakeWeight(const graph::Graph& recipe, absl::Span<const device::ConstBuffer> sources,
                          absl::string_view form, const device::Buffer& to,
                          device::Stream& stream) override;

  // Bytes of the arena now.
  size_t arena_bytes() const { return arena_->bytes(); }
  // Number of recipes that are bound.
  size_t bound_recipes() const { return recipes_.size(); }

 private:
  CudaBackend(std::unique_ptr<device::cuda::CudaDevice> device, std::unique_ptr<Findings> findings,
              std::unique_ptr<CublasLt> cublas_lt, std::unique_ptr<Cudnn> cudnn,
              std::unique_ptr<CudaExecutable::Launcher> launcher, std::shared_ptr<Arena> arena,
              bool tf32);
  void StartTrialsBy(std::vector<std::string> command);
  Gpu gpu() const { return {*device_, *cublas_lt_, *cudnn_, *findings_, trials_.get(), tf32_}; }

  graph::Target target_;
  const std::unique_ptr<device::cuda::CudaDevice> device_;
  const std::unique_ptr<Findings> findings_;
  const std::unique_ptr<CublasLt> cublas_lt_;
  const std::unique_ptr<Cudnn> cudnn_;
  const std::unique_ptr<CudaExecutable::Launcher> launcher_;
  const std::shared_ptr<Arena> arena_;
  Programs programs_;
  mutable BoundRecipes recipes_;
  const bool tf32_;
  std::unique_ptr<TrialProcess> trials_;  // null: there is none
};

// The fingerprint of a backend on that GPU with these versions of cuBLASLt and cuDNN.
std::string FingerprintOf(const device::cuda::CudaProperties& gpu, size_t cublas_lt, size_t cudnn,
                          bool tf32);

// Main function of the process that CudaBackend starts by `trial_command`: tries algorithms on that
// GPU, as its standard input orders, and reports the results. Returns the exit code.
int RunTrialProgram(int ordinal);

}  // namespace latentd::backends::cuda
