// Matrix products by cuBLASLt, which is loaded when a GPU is used: the program starts without it.
//
// Internal to this directory.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/backends/chooser.h"
#include "core/device/dtype.h"

namespace latentd::backends::cuda {

// result [rows, columns] = scale * a [rows, depth] b + bias + residual, for each of `batch`; b is
// [depth, columns], or [columns, depth] if it is transposed. Row-major; a line of each is `pitch`
// elements after the one before, a matrix of a batch `step` after the one before. The residual lies
// as the result does. Computed in f32; with `tf32`, which f32 operands only have, they may be
// rounded to TF32 (10 bits of mantissa) before they are multiplied. Of e4m3, both operands and b
// transposed, products are also multiplied with the one f32 at ProductAddresses::f8_scale, and sums
// of them keep some 14 bits.
struct ProductShape {
  struct Operand {
    device::DType dtype = device::DType::kF32;
    int64_t pitch = 0, step = 0;
    int64_t alignment = 256;  // its address's, in bytes
  };
  int64_t rows = 0, columns = 0, depth = 0, batch = 1;
  Operand a, b, result;
  bool b_transposed = false, has_bias = false, has_residual = false, tf32 = false;
  float scale = 1;

  bool is_f8() const { return a.dtype == device::DType::kF8E4M3; }
  // A name that equal products share.
  std::string Key() const;
};

struct ProductAddresses {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* f8_scale = nullptr;
  const void* bias = nullptr;
  const void* residual = nullptr;
  void* result = nullptr;
  void* workspace = nullptr;
};

// A watch over algorithms that are being tried.
struct TrialWatch {
  std::vector<std::string> left_out = {};                          // as bytes for CublasLt::Load
  std::function<void(absl::string_view algorithm)> announce = {};  // called before each run
};

class CublasLt;
class ProductTrial;

// A product with its algorithm. Immutable; thread-safe.
class Product {
 public:
  ~Product();
  Product(const Product&) = delete;

  size_t workspace_bytes() const { return workspace_bytes_; }
  absl::Status Enqueue(const ProductAddresses& at, cudaStream_t stream) const;

 private:
  friend class CublasLt;
  Product(const CublasLt& library, ProductShape shape) : library_(library), shape_(shape) {}
  absl::Status Describe();
  absl::Status DescribeOperand(cublasLtMatrixLayout_t& layout, const ProductShape::Operand& operand,
                               int64_t lines, int64_t line) const;

  const CublasLt& library_;
  const ProductShape shape_;
  cublasLtMatmulDesc_t product_ = nullptr;
  // cuBLASLt is column-major: its first operand is b, its second a, and everything is transposed.
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, result_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_ = {};
  size_t workspace_bytes_ = 0;
};

// Thread-safe.
class CublasLt {
 public:
  // FAILED_PRECONDITION: libcublasLt.so.13 cannot be loaded.
  static absl::StatusOr<std::unique_ptr<CublasLt>> Open();
  ~CublasLt();

  size_t version() const;

  static constexpr size_t kMostWorkspaceBytes = size_t{32} << 20;

  // The fastest algorithm for the product that computes right, as bytes for Load; where there is no
  // memory to try them, the one that the library would take, and that does not last.
  // UNIMPLEMENTED: there is none.
  absl::StatusOr<Choice> Choose(const ProductShape& shape, const TrialWatch& watch = {}) const;

  // INVALID_ARGUMENT: bytes that Choose did not make for this product. The product borrows this.
  absl::StatusOr<std::unique_ptr<Product>> Load(const ProductShape& shape,
                                                absl::string_view algorithm) const;

 private:
  friend class Product;
  struct Functions;
  CublasLt();
  // Best first, by the library's own estimate.
  absl::StatusOr<std::vector<std::string>> Candidates(const ProductShape& shape) const;
  // Their indices, the fastest first, without those that do not run.
  absl::StatusOr<std::vector<size_t>> ByTime(const ProductShape& shape,
                                             const std::vector<std::string>& candidates,
                                             ProductTrial& trial, const TrialWatch& watch) const;

  std::unique_ptr<Functions> functions_;
  cublasLtHandle_t handle_ = nullptr;
  mutable absl::Mutex trying_;  // one trial at a time: another would take its time
};

}  // namespace latentd::backends::cuda
