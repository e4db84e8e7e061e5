// Times algorithms of a matrix product on the GPU, on random numbers of their own, and checks the
// results: the fastest that computes right is chosen.
//
// Internal to this directory. Not thread-safe: one trial on one thread.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/backends/cuda/cublas_lt.h"

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

  // What the device says once it is done with what it was given: whether it still works.
  absl::Status CheckDevice() const;

  // INTERNAL unless some elements of the result, all over it, are what double precision gives but
  // for rounding.
  absl::Status Check(const Product& product);

 private:
  // Elements that repeat the pool of random numbers.
  struct Matrix {
    char* data = nullptr;
    int64_t elements = 0;
    device::DType dtype = device::DType::kF32;
  };

  explicit ProductTrial(const ProductShape& shape);
  absl::Status Allocate();
  absl::Status Fill(const Matrix& matrix);
  ProductAddresses AddressesOf(int run) const;
  absl::Status Enqueue(const Product& product, int run);
  double Value(const Matrix& matrix, int64_t index) const;
  double Expected(int64_t matrix, int64_t row, int64_t column) const;
  absl::StatusOr<double> Actual(int64_t index) const;

  const ProductShape shape_;
  std::vector<float> pool_;
  int copies_ = 1;  // of b
  Matrix a_, b_, bias_, residual_, result_;
  char* workspace_ = nullptr;
  std::vector<void*> taken_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace latentd::backends::cuda
