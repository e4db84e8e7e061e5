// Convolutions and attention by cuDNN, which is loaded when a GPU is used: the program starts
// without it.
//
// Internal to this directory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/backends/chooser.h"
#include "core/device/dtype.h"
#include "core/graph/op.h"

namespace latentd::backends::cuda {

// x [rows, height, width, channels] with weight [out, kernel, kernel, channels] and so much padding
// on both sides, [+ bias [out]] [+ residual]. Dense, everything of one dtype, computed in f32; what
// is f32 itself may be rounded to TF32 before it is multiplied.
struct ConvolutionShape {
  device::DType dtype = device::DType::kBF16;
  int64_t rows = 0, height = 0, width = 0, channels = 0;
  int64_t out = 0, kernel_height = 0, kernel_width = 0;
  int64_t stride = 1, padding_height = 0, padding_width = 0;
  bool has_bias = false, has_residual = false;

  std::string Key() const;  // a name that equal convolutions share
  bool tf32() const { return dtype == device::DType::kF32; }
  int64_t result_height() const {
    return (height + 2 * padding_height - kernel_height) / stride + 1;
  }
  int64_t result_width() const { return (width + 2 * padding_width - kernel_width) / stride + 1; }
};

// x [rows, height, width, channels] with weight [channels, 4, 4, out], transposed: to [rows,
// 2 height, 2 width, out] by a stride of 2 and a padding of 1. As a convolution else.
struct TransposedConvolutionShape {
  device::DType dtype = device::DType::kBF16;
  int64_t rows = 0, height = 0, width = 0, channels = 0, out = 0;

  std::string Key() const;
  bool tf32() const { return dtype == device::DType::kF32; }
};

// Query [rows, queries, heads * size], key and value [rows, keys, heads * size], as strides have
// it, to a dense result. f16 or bf16.
struct AttentionShape {
  struct Operand {
    int64_t row = 0, token = 0;  // strides in elements
  };
  device::DType dtype = device::DType::kBF16;
  int64_t rows = 0, heads = 0, queries = 0, keys = 0, size = 0;
  Operand query, key, value;
  float scale = 1;
  bool causal = false;

  std::string Key() const;
};

// One of these with its execution plan. Thread-safe; must not outlive its Cudnn.
class CudnnPlan {
 public:
  virtual ~CudnnPlan() = default;
  virtual size_t workspace_bytes() const = 0;

  // Addresses in the order of the shape's comment, the result last.
  virtual absl::Status Enqueue(absl::Span<void* const> addresses, void* workspace,
                               cudaStream_t stream) const = 0;
};

// Thread-safe.
class Cudnn {
 public:
  // `on_restore`, if there is one, is called whenever a plan was made of bytes, maybe by several
  // threads. FAILED_PRECONDITION: libcudnn.so.9 cannot be loaded.
  static absl::StatusOr<std::unique_ptr<Cudnn>> Open(std::function<void()> on_restore = {});
  virtual ~Cudnn() = default;

  virtual size_t version() const = 0;

  // Runs a plan: INTERNAL: it is wrong; RESOURCE_EXHAUSTED: there is no memory to say.
  using Trial = absl::FunctionRef<absl::Status(const CudnnPlan& plan)>;

  // The first plan of those that the library recommends that `trial` finds nothing wrong with, as
  // bytes for Load; one that could not be tried does not last. UNIMPLEMENTED: there is none.
  virtual absl::StatusOr<Choice> Choose(const ConvolutionShape& shape, Trial trial) = 0;
  virtual absl::StatusOr<Choice> Choose(const TransposedConvolutionShape& shape, Trial trial) = 0;
  virtual absl::StatusOr<Choice> Choose(const AttentionShape& shape, Trial trial) = 0;

  // INVALID_ARGUMENT: bytes that Choose did not make for a shape of this key with this library.
  virtual absl::StatusOr<std::shared_ptr<const CudnnPlan>> Load(const std::string& key,
                                                                absl::string_view plan) = 0;
};

}  // namespace latentd::backends::cuda
