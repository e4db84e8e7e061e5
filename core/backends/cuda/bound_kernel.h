// A kernel chosen for one instruction, ready to be enqueued as often as one likes.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/backends/cuda/cublas_lt.h"
#include "core/backends/cuda/cudnn.h"
#include "core/backends/lowering/kernel_binding.h"
#include "core/device/cuda/cuda_device.h"

namespace latentd::backends::cuda {

// What kernels are bound to.
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

// What the libraries chose for each of the shapes that a graph has: what a plan holds.
using Choices = std::map<std::string, std::string>;

// What was chosen since the start, so that a graph pays for its new shapes only. Thread-safe.
class Findings {
 public:
  std::optional<std::string> Find(const std::string& key) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The one that was there before, if there was one: equal shapes have equal choices.
  std::string Keep(const std::string& key, std::string choice) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  Choices choices_ ABSL_GUARDED_BY(mutex_);
};

// The GPU, the vendor's libraries on it, and what they have chosen.
struct Gpu {
  device::cuda::CudaDevice& device;
  CublasLt& cublas_lt;
  Cudnn& cudnn;
  Findings& findings;
};

inline bool IsHopper(const Gpu& gpu) { return gpu.device.properties().compute_capability == 90; }

// How a binder comes by its choice: it is found or made, and written down, or it is looked up.
class Chooser {
 public:
  static Chooser Choosing(Findings& findings, Choices& made) { return {&findings, made}; }
  static Chooser LookingUp(Choices& given) { return {nullptr, given}; }

  // `choose` gives StatusOr<string>. INVALID_ARGUMENT: the plan has no choice for the key.
  template <typename Choose>
  absl::StatusOr<std::string> Get(const std::string& key, const Choose& choose) const {
    const auto known = choices_.find(key);
    if (known != choices_.end()) return known->second;
    if (findings_ == nullptr) return Missing(key);
    std::optional<std::string> found = findings_->Find(key);
    if (!found) {
      absl::StatusOr<std::string> chosen = choose();
      if (!chosen.ok()) return chosen;
      found = findings_->Keep(key, *std::move(chosen));
    }
    return choices_[key] = *found;
  }

 private:
  Chooser(Findings* findings, Choices& choices) : findings_(findings), choices_(choices) {}
  static absl::Status Missing(const std::string& key);

  Findings* const findings_;  // null: looking up
  Choices& choices_;
};

absl::StatusOr<BoundKernel> BindKernel(const Program& program, const Instruction& instruction,
                                       const Chooser& chooser, const Gpu& gpu);

}  // namespace latentd::backends::cuda
