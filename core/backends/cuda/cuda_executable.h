// A program with its kernels, weights and a place in the arena; bound to memory and run more than
// once, a captured graph.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/backends/cuda/arena.h"
#include "core/backends/cuda/bound_program.h"
#include "core/backends/cuda/captured_graph.h"
#include "core/backends/cuda/staged_graph.h"
#include "core/backends/executable.h"
#include "core/base/errors/out_of_memory.h"
#include "core/device/cuda/cuda_device.h"
#include "core/weights/weight_set.h"

namespace latentd::backends::cuda {

// A graph that a session captured, and the addresses of its ports, inputs first.
struct CapturedGraph {
  std::vector<char*> ports;
  GraphPointer graph;  // null: nothing
};

class CudaExecutable : public Executable {
 public:
  // How programs are enqueued, one at a time: cuDNN, which they all share, has one stream at a
  // time.
  class Launcher {
   public:
    static absl::StatusOr<std::unique_ptr<Launcher>> Create();
    ~Launcher();
    Launcher(const Launcher&) = delete;

    // `work` enqueues on the stream that it is given: here, on this one.
    template <typename Work>
    absl::Status Enqueue(cudaStream_t stream, const Work& work) {
      absl::MutexLock lock(&mutex_);
      return work(stream);
    }

    // `work` enqueues on a stream of this launcher's own, and its kernels become a graph.
    template <typename Work>
    absl::StatusOr<cudaGraphExec_t> Capture(const Work& work) {
      absl::MutexLock lock(&mutex_);
      if (absl::Status begun = Begin(); !begun.ok()) return begun;
      return End(CatchOutOfMemory([&] { return work(capture_); }));  // it ends in any case
    }

   private:
    explicit Launcher(cudaStream_t capture) : capture_(capture) {}
    absl::Status Begin();
    absl::StatusOr<cudaGraphExec_t> End(const absl::Status& worked);

    absl::Mutex mutex_;
    const cudaStream_t capture_;
  };

  // Takes the weights and uploads the constants. `device` and `launcher` must outlive it.
  static absl::StatusOr<std::unique_ptr<CudaExecutable>> Create(Programs::Program program,
                                                                std::unique_ptr<Arena::Lease> lease,
                                                                const weights::WeightSet& weights,
                                                                device::cuda::CudaDevice& device,
                                                                Launcher& launcher);

  const ExecutableInfo& info() const override { return info_; }
  device::Device& device() const override { return device_; }

  absl::StatusOr<std::unique_ptr<Session>> Bind(absl::Span<const device::ConstBuffer> inputs,
                                                absl::Span<const device::Buffer> outputs) override;

  const Program& program() const { return program_->bound.program; }

  // True if it keeps a graph that a session captured, for the next one there.
  bool keeps_graph() const ABSL_LOCKS_EXCLUDED(kept_mutex_);

 private:
  friend class CudaSession;

  CudaExecutable(Programs::Program program, std::unique_ptr<Arena::Lease> lease,
                 device::cuda::CudaDevice& device, Launcher& launcher);
  absl::Status UploadLiterals();
  absl::Status StagePorts();
  // With the ports at these addresses, inputs first.
  lowering::Addresses AddressesWith(absl::Span<char* const> ports) const;
  // Counts kernels that are enqueued, before an error too.
  absl::Status EnqueueKernels(const lowering::Addresses& addresses, cudaStream_t stream,
                              size_t& enqueued) const;
  absl::StatusOr<GraphPointer> Capture(const lowering::Addresses& addresses);
  // True of a program whose outputs update its inputs, as a step's do, once it has run or others
  // over other weights share it: a session that runs it will run it again.
  bool IsRepeated() { return updates_ && (ran_.exchange(true) || program_.use_count() > 1); }
  // Instead of what was kept before. REQUIRES: the device is done with it.
  void Keep(CapturedGraph captured) ABSL_LOCKS_EXCLUDED(kept_mutex_);
  // With that graph, if it is there.
  CapturedGraph TakeKept(std::vector<char*> ports) ABSL_LOCKS_EXCLUDED(kept_mutex_);

  const Programs::Program program_;
  // These go behind the lease, which waits for the device.
  std::vector<weights::WeightRef> held_;  // plain and packed
  std::unique_ptr<StagedGraph> staged_;   // null: ports that are not staged
  const std::unique_ptr<Arena::Lease> lease_;
  device::cuda::CudaDevice& device_;
  Launcher& launcher_;
  ExecutableInfo info_;
  const bool updates_;  // some input
  std::atomic<bool> ran_ = false;
  lowering::Addresses addresses_;  // without those that sessions bind
  device::Buffer literals_;

  mutable absl::Mutex kept_mutex_;
  CapturedGraph kept_ ABSL_GUARDED_BY(kept_mutex_);
};

// With staged ports, every run but the executable's first is one launch (staged_graph.h). Without,
// most sessions of decoders run once, and to capture a program takes longer than to launch its
// kernels: so the first run launches them one by one. The second captures them, and from then on a
// run is one launch; of a step, which runs again, they are captured right behind the first, while
// the device is at that. The executable keeps a captured graph, one at a time, for the next session
// at the same addresses: of a step, for the next picture's lane, which lies where the last one did
// unless others have taken that memory.
class CudaSession : public Session {
 public:
  // With all addresses of the executable's program; those of ports by themselves too.
  CudaSession(CudaExecutable& executable, lowering::Addresses addresses, std::vector<char*> ports)
      : executable_(executable),
        addresses_(std::move(addresses)),
        captured_(executable.TakeKept(std::move(ports))) {}
  ~CudaSession() override;

  // Behind all runs that use the arena.
  absl::Status Enqueue(device::Stream& stream) override;

  // For measurements: one of the program's instructions alone, on what the last run left in the
  // arena; of copies that are made together the first makes all. REQUIRES: nothing else runs.
  absl::Status EnqueueInstruction(size_t index, device::Stream& stream) const;

 private:
  absl::Status EnqueueKernels(cudaStream_t stream) const;
  absl::Status EnqueueStaged(StagedGraph& staged, cudaStream_t stream);

  CudaExecutable& executable_;
  const lowering::Addresses addresses_;
  bool ran_ = false;
  CapturedGraph captured_;  // from the second run on, or the first
};

}  // namespace latentd::backends::cuda
