// Arrays on the GPU that kernels are tried on: random numbers, which the host knows too.
//
// Internal to this directory. Not thread-safe: one trial on one thread.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/device/dtype.h"

namespace latentd::backends::cuda {

class TrialMemory {
 public:
  struct Array {
    char* Copy(int64_t number) const { return data + number * bytes(); }
    int64_t bytes() const { return elements * device::SizeOf(dtype); }

    char* data = nullptr;
    int64_t elements = 0;  // elements of one copy
    device::DType dtype = device::DType::kF32;
    int64_t first = 0;  // index into the random numbers, which repeat
  };

  // The selected device's. RESOURCE_EXHAUSTED, as everything below: no memory of the device.
  static absl::StatusOr<std::unique_ptr<TrialMemory>> Create();
  ~TrialMemory();
  TrialMemory(const TrialMemory&) = delete;

  cudaStream_t stream() const { return stream_; }

  // With whatever is in it.
  absl::StatusOr<Array> Allocate(int64_t elements, device::DType dtype, int64_t copies = 1);
  // Normal numbers, as the dtype holds them; those of each array are others. Equal copies lie
  // behind each other.
  absl::StatusOr<Array> Draw(int64_t elements, device::DType dtype, int64_t copies = 1);
  absl::StatusOr<char*> Take(size_t bytes);
  // Every byte is 0xff: NaN.
  absl::Status Poison(const Array& array);

  // The value that Draw put there.
  double Value(const Array& array, int64_t index) const;
  // The value now there, once the stream is done.
  absl::StatusOr<double> Read(const Array& array, int64_t index) const;

  // Waits for the stream: whether the device still works.
  absl::Status Wait() const;

  // An element of a result as double precision has it, and how large the sum's deviation is.
  struct Sample {
    int64_t index = 0;
    double value = 0, deviation = 1;
  };
  using Random = std::mt19937_64;
  // Any number from 0 to size - 1.
  static int64_t Below(Random& random, int64_t size) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(size));
  }
  // Waits, then INTERNAL unless the elements that `draw` names, some dozens, are what it says but
  // for rounding: of the result, and with `tf32` of what is multiplied.
  absl::Status Check(const Array& array, absl::FunctionRef<Sample(Random& random)> draw,
                     absl::string_view what, bool tf32 = false) const;

 private:
  TrialMemory() = default;

  int64_t drawn_ = 0;  // arrays
  std::vector<void*> taken_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace latentd::backends::cuda
