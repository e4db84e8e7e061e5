#include "core/backends/cuda/libraries/trial_memory.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/device/cuda/cuda_status.h"

namespace latentd::backends::cuda {
namespace {

using device::DType;
using device::cuda::ToStatus;

// No divisor of any line, so that no two lines are the same; nor is the distance of two arrays.
constexpr int64_t kPool = 65537, kNextArray = 9973;

float Rounded(float value, DType dtype) {
  if (dtype == DType::kF8E4M3) return static_cast<float>(__nv_fp8_e4m3(value));
  if (dtype == DType::kBF16) return __bfloat162float(__float2bfloat16_rn(value));
  return dtype == DType::kF16 ? __half2float(__float2half_rn(value)) : value;
}

const std::vector<float>& Pool() {
  static const auto& pool = *new std::vector<float>([] {
    std::vector<float> numbers(kPool);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& number : numbers) number = normal(random);
    return numbers;
  }());
  return pool;
}

std::string EncodedPool(int64_t first, DType dtype) {
  std::string bytes(kPool * device::SizeOf(dtype), '\0');
  for (int64_t i = 0; i < kPool; ++i) {
    const float& value = Pool()[(first + i) % kPool];
    char* to = bytes.data() + i * device::SizeOf(dtype);
    const __nv_bfloat16 bf16 = __float2bfloat16_rn(value);
    const __half f16 = __float2half_rn(value);
    const __nv_fp8_e4m3 e4m3(value);
    const void* from = &value;
    if (dtype == DType::kF8E4M3) from = &e4m3;
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

// How far a sum may be off, as a share of its deviation. TF32 that is cut off instead of rounded
// makes each product smaller by up to 2^-9 of it, and all of them into the same direction.
double UnitOf(DType result, bool tf32) {
  if (result != DType::kF32) return 0x1p-7;
  return tf32 ? 0x1p-8 : 0x1p-16;
}

}  // namespace

TrialMemory::~TrialMemory() {
  for (void* memory : taken_) cudaFreeAsync(memory, stream_);
  if (stream_ == nullptr) return;
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

absl::StatusOr<std::unique_ptr<TrialMemory>> TrialMemory::Create() {
  std::unique_ptr<TrialMemory> memory(new TrialMemory());
  RETURN_IF_ERROR(ToStatus(cudaStreamCreateWithFlags(&memory->stream_, cudaStreamNonBlocking),
                           "making a stream"));
  return memory;
}

absl::StatusOr<char*> TrialMemory::Take(size_t bytes) {
  void* memory = nullptr;
  RETURN_IF_ERROR(
      ToStatus(cudaMallocAsync(&memory, std::max<size_t>(bytes, 1), stream_), "a trial"));
  taken_.push_back(memory);
  return static_cast<char*>(memory);
}

absl::StatusOr<TrialMemory::Array> TrialMemory::Allocate(int64_t elements, DType dtype,
                                                         int64_t copies) {
  Array array = {nullptr, elements, dtype};
  if (elements == 0) return array;
  ASSIGN_OR_RETURN(array.data, Take(array.bytes() * copies));
  return array;
}

absl::StatusOr<TrialMemory::Array> TrialMemory::Draw(int64_t elements, DType dtype,
                                                     int64_t copies) {
  ASSIGN_OR_RETURN(Array array, Allocate(elements, dtype, copies));
  array.first = drawn_++ * kNextArray;
  if (elements == 0) return array;
  const std::string pool = EncodedPool(array.first, dtype);
  const auto all = static_cast<size_t>(array.bytes());
  size_t filled = std::min(all, pool.size());
  RETURN_IF_ERROR(
      ToStatus(cudaMemcpyAsync(array.data, pool.data(), filled, cudaMemcpyHostToDevice, stream_),
               "filling a trial"));
  const auto copy = [&](size_t to, size_t bytes) {
    return ToStatus(
        cudaMemcpyAsync(array.data + to, array.data, bytes, cudaMemcpyDeviceToDevice, stream_),
        "filling a trial");
  };
  // Whole pools, so that the numbers go on repeating.
  for (; filled < all; filled += std::min(filled, all - filled)) {
    RETURN_IF_ERROR(copy(filled, std::min(filled, all - filled)));
  }
  for (int64_t i = 1; i < copies; ++i) RETURN_IF_ERROR(copy(i * all, all));
  RETURN_IF_ERROR(Wait());  // it reads the pool's bytes
  return array;
}

absl::Status TrialMemory::Poison(const Array& array) {
  return ToStatus(cudaMemsetAsync(array.data, 0xff, array.bytes(), stream_), "a trial");
}

double TrialMemory::Value(const Array& array, int64_t index) const {
  return Rounded(Pool()[(array.first + index) % kPool], array.dtype);
}

absl::StatusOr<double> TrialMemory::Read(const Array& array, int64_t index) const {
  char bytes[sizeof(float)] = {};
  const int64_t size = device::SizeOf(array.dtype);
  RETURN_IF_ERROR(ToStatus(
      cudaMemcpy(bytes, array.data + index * size, size, cudaMemcpyDeviceToHost), "a trial"));
  return Decode(bytes, array.dtype);
}

absl::Status TrialMemory::Wait() const {
  return ToStatus(cudaStreamSynchronize(stream_), "a trial");
}

absl::Status TrialMemory::Check(const Array& array, absl::FunctionRef<Sample(Random& random)> draw,
                                absl::string_view what, bool tf32) const {
  constexpr int kSamples = 64;
  RETURN_IF_ERROR(Wait());
  const double unit = UnitOf(array.dtype, tf32);
  Random random(2);
  for (int i = 0; i < kSamples; ++i) {
    const Sample expected = draw(random);
    ASSIGN_OR_RETURN(const double actual, Read(array, expected.index));
    const double most = unit * (expected.deviation + std::abs(expected.value));
    if (std::abs(actual - expected.value) <= most) continue;
    return absl::InternalError(
        absl::StrCat("a kernel gives ", actual, ", not ", expected.value, ", for ", what));
  }
  return absl::OkStatus();
}

}  // namespace latentd::backends::cuda
