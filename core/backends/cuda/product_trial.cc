#include "core/backends/cuda/product_trial.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/device/cuda/cuda_status.h"

namespace latentd::backends::cuda {
namespace {

using device::DType;
using device::cuda::ToStatus;

// No divisor of any line, so that no two lines are the same.
constexpr int64_t kPool = 65537;
constexpr size_t kCacheBytes = size_t{96} << 20;
constexpr int kMostCopies = 16, kRuns = 10, kRepetitions = 3, kSamples = 64;

int64_t ElementsOf(const ProductShape::Operand& operand, int64_t lines, int64_t line,
                   int64_t batch) {
  return (batch - 1) * operand.step + (lines - 1) * operand.pitch + line;
}

float Rounded(float value, DType dtype) {
  if (dtype == DType::kBF16) return __bfloat162float(__float2bfloat16_rn(value));
  return dtype == DType::kF16 ? __half2float(__float2half_rn(value)) : value;
}

std::string Encode(const std::vector<float>& values, DType dtype) {
  std::string bytes(values.size() * device::SizeOf(dtype), '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    char* to = bytes.data() + i * device::SizeOf(dtype);
    const __nv_bfloat16 bf16 = __float2bfloat16_rn(values[i]);
    const __half f16 = __float2half_rn(values[i]);
    const void* from = &values[i];
    if (dtype == DType::kBF16) from = &bf16;
    if (dtype == DType::kF16) from = &f16;
    std::memcpy(to, from, device::SizeOf(dtype));
  }
  return bytes;
}

float Decode(const char* bytes, DType dtype) {
  float f32 = 0;
  __nv_bfloat16 bf16;
  __half f16;
  if (dtype == DType::kF32) std::memcpy(&f32, bytes, sizeof(f32));
  if (dtype == DType::kBF16) {
    std::memcpy(&bf16, bytes, sizeof(bf16));
    f32 = __bfloat162float(bf16);
  }
  if (dtype == DType::kF16) {
    std::memcpy(&f16, bytes, sizeof(f16));
    f32 = __half2float(f16);
  }
  return f32;
}

}  // namespace

ProductTrial::ProductTrial(const ProductShape& shape) : shape_(shape), pool_(kPool) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& value : pool_) value = normal(random);
}

ProductTrial::~ProductTrial() {
  for (void* memory : taken_) cudaFreeAsync(memory, stream_);
  if (begin_ != nullptr) cudaEventDestroy(begin_);
  if (end_ != nullptr) cudaEventDestroy(end_);
  if (stream_ != nullptr) {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
}

absl::StatusOr<std::unique_ptr<ProductTrial>> ProductTrial::Create(const ProductShape& shape) {
  std::unique_ptr<ProductTrial> trial(new ProductTrial(shape));
  RETURN_IF_ERROR(ToStatus(cudaStreamCreateWithFlags(&trial->stream_, cudaStreamNonBlocking),
                           "making a stream"));
  RETURN_IF_ERROR(ToStatus(cudaEventCreate(&trial->begin_), "making an event"));
  RETURN_IF_ERROR(ToStatus(cudaEventCreate(&trial->end_), "making an event"));
  RETURN_IF_ERROR(trial->Allocate());
  return trial;
}

absl::Status ProductTrial::Allocate() {
  const ProductShape& s = shape_;
  a_ = {nullptr, ElementsOf(s.a, s.rows, s.depth, s.batch), s.a.dtype};
  b_ = {nullptr,
        s.b_transposed ? ElementsOf(s.b, s.columns, s.depth, s.batch)
                       : ElementsOf(s.b, s.depth, s.columns, s.batch),
        s.b.dtype};
  result_ = {nullptr, ElementsOf(s.result, s.rows, s.columns, s.batch), s.result.dtype};
  residual_ = {nullptr, s.has_residual ? result_.elements : 0, s.result.dtype};
  bias_ = {nullptr, s.has_bias ? s.columns : 0, s.result.dtype};
  const size_t bytes = b_.elements * device::SizeOf(b_.dtype);
  copies_ = std::clamp(static_cast<int>(kCacheBytes / bytes), 1, kMostCopies);
  for (Matrix* matrix : {&a_, &b_, &residual_, &bias_, &result_}) {
    const int64_t elements = matrix->elements * (matrix == &b_ ? copies_ : 1);
    if (elements == 0) continue;
    void* memory = nullptr;
    RETURN_IF_ERROR(ToStatus(
        cudaMallocAsync(&memory, elements * device::SizeOf(matrix->dtype), stream_), "a trial"));
    taken_.push_back(memory);
    matrix->data = static_cast<char*>(memory);
    for (int copy = 0; copy < elements / matrix->elements; ++copy) {
      Matrix one = *matrix;
      one.data += copy * matrix->elements * device::SizeOf(matrix->dtype);
      RETURN_IF_ERROR(Fill(one));
    }
  }
  void* memory = nullptr;
  RETURN_IF_ERROR(
      ToStatus(cudaMallocAsync(&memory, CublasLt::kMostWorkspaceBytes, stream_), "a trial"));
  taken_.push_back(memory);
  workspace_ = static_cast<char*>(memory);
  return absl::OkStatus();
}

absl::Status ProductTrial::Fill(const Matrix& matrix) {
  const std::string pool = Encode(pool_, matrix.dtype);
  const size_t all = matrix.elements * device::SizeOf(matrix.dtype);
  size_t filled = std::min(all, pool.size());
  RETURN_IF_ERROR(
      ToStatus(cudaMemcpyAsync(matrix.data, pool.data(), filled, cudaMemcpyHostToDevice, stream_),
               "filling a trial"));
  // Whole pools, so that the numbers go on repeating.
  for (; filled < all;) {
    const size_t next = std::min(filled, all - filled);
    RETURN_IF_ERROR(ToStatus(
        cudaMemcpyAsync(matrix.data + filled, matrix.data, next, cudaMemcpyDeviceToDevice, stream_),
        "filling a trial"));
    filled += next;
  }
  return ToStatus(cudaStreamSynchronize(stream_), "filling a trial");
}

ProductAddresses ProductTrial::AddressesOf(int run) const {
  const int64_t copy = run % copies_;
  return {.a = a_.data,
          .b = b_.data + copy * b_.elements * device::SizeOf(b_.dtype),
          .bias = bias_.data,
          .residual = residual_.data,
          .result = result_.data,
          .workspace = workspace_};
}

absl::Status ProductTrial::Enqueue(const Product& product, int run) {
  return product.Enqueue(AddressesOf(run), stream_);
}

absl::StatusOr<double> ProductTrial::Time(const Product& product) {
  RETURN_IF_ERROR(Enqueue(product, 0));
  float least = HUGE_VALF;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    RETURN_IF_ERROR(ToStatus(cudaEventRecord(begin_, stream_), "timing"));
    for (int run = 0; run < kRuns; ++run) RETURN_IF_ERROR(Enqueue(product, run));
    RETURN_IF_ERROR(ToStatus(cudaEventRecord(end_, stream_), "timing"));
    RETURN_IF_ERROR(ToStatus(cudaEventSynchronize(end_), "timing"));
    float milliseconds = 0;
    RETURN_IF_ERROR(ToStatus(cudaEventElapsedTime(&milliseconds, begin_, end_), "timing"));
    least = std::min(least, milliseconds / kRuns);
  }
  return least;
}

absl::Status ProductTrial::CheckDevice() const {
  return ToStatus(cudaStreamSynchronize(stream_), "a trial");
}

double ProductTrial::Value(const Matrix& matrix, int64_t index) const {
  return Rounded(pool_[index % kPool], matrix.dtype);
}

double ProductTrial::Expected(int64_t matrix, int64_t row, int64_t column) const {
  const ProductShape& s = shape_;
  double sum = 0;
  for (int64_t k = 0; k < s.depth; ++k) {
    const int64_t of_b = s.b_transposed ? column * s.b.pitch + k : k * s.b.pitch + column;
    sum += Value(a_, matrix * s.a.step + row * s.a.pitch + k) * Value(b_, matrix * s.b.step + of_b);
  }
  sum *= s.scale;
  if (s.has_bias) sum += Value(bias_, column);
  if (s.has_residual) {
    sum += Value(residual_, matrix * s.result.step + row * s.result.pitch + column);
  }
  return sum;
}

absl::StatusOr<double> ProductTrial::Actual(int64_t index) const {
  char bytes[sizeof(float)] = {};
  const int64_t size = device::SizeOf(result_.dtype);
  RETURN_IF_ERROR(ToStatus(
      cudaMemcpy(bytes, result_.data + index * size, size, cudaMemcpyDeviceToHost), "a trial"));
  return Decode(bytes, result_.dtype);
}

absl::Status ProductTrial::Check(const Product& product) {
  const size_t bytes = result_.elements * device::SizeOf(result_.dtype);
  RETURN_IF_ERROR(ToStatus(cudaMemsetAsync(result_.data, 0xff, bytes, stream_), "a trial"));
  RETURN_IF_ERROR(Enqueue(product, 0));
  RETURN_IF_ERROR(ToStatus(cudaStreamSynchronize(stream_), "a trial"));
  // Of a sum of products of normal numbers the deviation is the root of their count.
  const double scale = std::abs(shape_.scale) * std::sqrt(static_cast<double>(shape_.depth)) + 1;
  const double unit = result_.dtype == DType::kF32 ? 0x1p-16 : 0x1p-7;
  std::mt19937 random(2);
  for (int sample = 0; sample < kSamples; ++sample) {
    const int64_t matrix = random() % shape_.batch, row = random() % shape_.rows,
                  column = random() % shape_.columns;
    const double expected = Expected(matrix, row, column);
    ASSIGN_OR_RETURN(const double actual,
                     Actual(matrix * shape_.result.step + row * shape_.result.pitch + column));
    if (std::abs(actual - expected) <= unit * (scale + std::abs(expected))) continue;
    return absl::InternalError(
        absl::StrCat("an algorithm gives ", actual, ", not ", expected, ", for ", shape_.Key()));
  }
  return absl::OkStatus();
}

}  // namespace latentd::backends::cuda
