// Times algorithms of a matrix product on the GPU, on random numbers of their own, and checks the
// results: the fastest that computes right is chosen.
//
// Internal to this directory. Not thread-safe: one trial on one thread.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/backends/cuda/libraries/cublas_lt.h"
#include "core/backends/cuda/libraries/trial_memory.h"

namespace latentd::backends::cuda {

class ProductTrial {
 public:
  // RESOURCE_EXHAUSTED: no memory of the device for it.
  static absl::StatusOr<std::unique_ptr<ProductTrial>> Create(const ProductShape& shape);
  ~ProductTrial();
  ProductTrial(const ProductTrial&) = delete;

  // Milliseconds of one run: the least mean of several runs behind each other, each of which finds
  // b outside the caches, as weights are.
  absl::StatusOr<double> Time(const Product& product);

  // Waits for the device; a fault if it works no more.
  absl::Status CheckDevice() const;

  // INTERNAL unless some elements of the result, all over it, are what double precision gives but
  // for rounding.
  absl::Status Check(const Product& product);

 private:
  ProductTrial(const ProductShape& shape, std::unique_ptr<TrialMemory> memory)
      : shape_(shape), memory_(std::move(memory)) {}
  absl::Status Allocate();
  ProductAddresses AddressesOf(int run) const;
  absl::Status Enqueue(const Product& product, int run);
  TrialMemory::Sample Draw(TrialMemory::Random& random) const;

  const ProductShape shape_;
  const std::unique_ptr<TrialMemory> memory_;
  int copies_ = 1;  // number of copies of b
  TrialMemory::Array a_, b_, bias_, residual_, result_;
  char *workspace_ = nullptr, *f8_scale_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace latentd::backends::cuda
