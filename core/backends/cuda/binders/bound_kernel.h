// A kernel chosen for one instruction, ready to be enqueued as often as one likes.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "absl/status/statusor.h"
#include "core/backends/chooser.h"
#include "core/backends/cuda/libraries/cublas_lt.h"
#include "core/backends/cuda/libraries/cudnn.h"
#include "core/backends/cuda/trial/trial_process.h"
#include "core/backends/findings.h"
#include "core/backends/lowering/kernel_binding.h"
#include "core/device/cuda/cuda_device.h"

namespace latentd::backends::cuda {

// Names of lowering that kernels are bound with.
using lowering::AddressOf;
using lowering::BytesOf;
using lowering::Instruction;
using lowering::Kernel;
using lowering::Place;
using lowering::Program;
using lowering::Storage;
using lowering::View;

struct Frame : lowering::Frame {
  cudaStream_t stream;
};

struct BoundKernel : lowering::KernelNeeds {
  using Enqueue = std::function<absl::Status(const Frame&)>;
  Enqueue enqueue;
};

// The GPU, the vendor's libraries on it, what they have chosen, and what they may do.
struct Gpu {
  device::cuda::CudaDevice& device;
  CublasLt& cublas_lt;
  Cudnn& cudnn;
  Findings& findings;
  TrialProcess* trials = nullptr;  // null: products are tried in this process
  bool tf32 = false;               // may what is f32 be rounded to TF32 before it is multiplied?
};

inline bool IsHopper(const device::cuda::CudaProperties& gpu) {
  return gpu.compute_capability == 90;
}
inline bool IsHopper(const Gpu& gpu) { return IsHopper(gpu.device.properties()); }

absl::StatusOr<BoundKernel> BindKernel(const Program& program, const Instruction& instruction,
                                       const Chooser& chooser, const Gpu& gpu);

}  // namespace latentd::backends::cuda
