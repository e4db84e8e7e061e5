// A program with its kernels, weights and a place in the arena; bound to memory, a captured graph.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/backends/cuda/arena.h"
#include "core/backends/cuda/bound_program.h"
#include "core/backends/executable.h"
#include "core/base/out_of_memory.h"
#include "core/device/cuda/cuda_device.h"
#include "core/weights/weight_set.h"

namespace latentd::backends::cuda {

class CudaExecutable : public Executable {
 public:
  // A stream that nobody else uses, on which sessions are captured, one at a time: cuDNN has one
  // stream at a time too.
  class Capture {
   public:
    static absl::StatusOr<std::unique_ptr<Capture>> Create();
    ~Capture();
    Capture(const Capture&) = delete;

    // What `work` enqueues on the stream that it is given.
    template <typename Work>
    absl::StatusOr<cudaGraphExec_t> Record(const Work& work) {
      absl::MutexLock lock(&mutex_);
      if (absl::Status begun = Begin(); !begun.ok()) return begun;
      return End(CatchOutOfMemory([&] { return work(stream_); }));
    }

   private:
    explicit Capture(cudaStream_t stream) : stream_(stream) {}
    absl::Status Begin();
    absl::StatusOr<cudaGraphExec_t> End(const absl::Status& worked);

    absl::Mutex mutex_;
    const cudaStream_t stream_;
  };

  // Takes the weights and uploads the constants. `device` and `capture` must outlive it.
  static absl::StatusOr<std::unique_ptr<CudaExecutable>> Create(
      std::shared_ptr<const graph::Graph> graph, BoundProgram bound,
      const graph::MemoryPlan& memory, std::unique_ptr<Arena::Lease> lease,
      const weights::WeightSet& weights, device::cuda::CudaDevice& device, Capture& capture);

  const ExecutableInfo& info() const override { return info_; }
  device::Device& device() const override { return device_; }

  absl::StatusOr<std::unique_ptr<Session>> Bind(absl::Span<const device::ConstBuffer> inputs,
                                                absl::Span<const device::Buffer> outputs) override;

  const Program& program() const { return bound_.program; }

 private:
  friend class CudaSession;

  CudaExecutable(std::shared_ptr<const graph::Graph> graph, BoundProgram bound,
                 const graph::MemoryPlan& memory, std::unique_ptr<Arena::Lease> lease,
                 device::cuda::CudaDevice& device, Capture& capture);
  absl::Status UploadLiterals();

  const std::shared_ptr<const graph::Graph> graph_;
  const BoundProgram bound_;
  const std::unique_ptr<Arena::Lease> lease_;
  device::cuda::CudaDevice& device_;
  Capture& capture_;
  ExecutableInfo info_;
  lowering::Addresses addresses_;  // without those that sessions bind
  device::Buffer literals_;
  std::vector<weights::WeightRef> held_;  // plain and packed
};

class CudaSession : public Session {
 public:
  // With all addresses of the executable's program.
  CudaSession(const CudaExecutable& executable, lowering::Addresses addresses,
              cudaGraphExec_t graph)
      : executable_(executable), addresses_(std::move(addresses)), graph_(graph) {}
  ~CudaSession() override;

  // One launch, behind all runs that use the arena.
  absl::Status Enqueue(device::Stream& stream) override;

  // For measurements: one of the program's instructions alone, on what the last run left in the
  // arena. REQUIRES: nothing else runs.
  absl::Status EnqueueInstruction(size_t index, device::Stream& stream) const;

 private:
  const CudaExecutable& executable_;
  const lowering::Addresses addresses_;
  const cudaGraphExec_t graph_;
};

}  // namespace latentd::backends::cuda
