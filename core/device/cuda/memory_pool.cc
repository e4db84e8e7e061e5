#include "core/device/cuda/memory_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/base/out_of_memory.h"
#include "core/device/cuda/cuda_status.h"

namespace latentd::device::cuda {
namespace {

// Small sizes share: powers of two up to 1 MiB, multiples of 2 MiB beyond.
size_t RoundedUp(size_t bytes) {
  constexpr size_t kLeast = 512, kSmall = size_t{1} << 20, kStep = size_t{2} << 20;
  if (bytes <= kSmall) return std::bit_ceil(std::max(bytes, kLeast));
  return (bytes + kStep - 1) / kStep * kStep;
}

}  // namespace

MemoryPool::~MemoryPool() { Trim(); }

absl::Status MemoryPool::Allocate(size_t bytes, void*& memory) const {
  cudaError_t error = cudaSetDevice(ordinal_);
  if (error == cudaSuccess) {
    error = kind_ == MemoryKind::kDevice ? cudaMalloc(&memory, bytes)
                                         : cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
  }
  if (error == cudaErrorMemoryAllocation) cudaGetLastError();  // it has been told
  return ToStatus(error, kind_ == MemoryKind::kDevice ? "GPU memory" : "pinned memory");
}

// At the end of the process CUDA may be gone, and its memory with it.
void MemoryPool::Free(void* memory) const {
  if (cudaSetDevice(ordinal_) != cudaSuccess) return;
  kind_ == MemoryKind::kDevice ? cudaFree(memory) : cudaFreeHost(memory);
}

void* MemoryPool::TakeIdle(size_t bytes) {
  absl::MutexLock lock(&mutex_);
  SizeClass& size = classes_[bytes];
  size.idle.reserve(size.idle.size() + size.used + 1);  // so that putting back asks for no memory
  ++size.used;
  if (size.idle.empty()) return nullptr;
  void* memory = size.idle.back();
  size.idle.pop_back();
  return memory;
}

absl::StatusOr<std::shared_ptr<void>> MemoryPool::Take(size_t bytes) {
  bytes = RoundedUp(bytes);
  void* memory = TakeIdle(bytes);
  if (memory == nullptr) {
    const absl::Status allocated = CatchOutOfMemory([&] { return AllocateOrTrim(bytes, memory); });
    if (!allocated.ok()) {
      absl::MutexLock lock(&mutex_);
      --classes_[bytes].used;
      return allocated;
    }
  }
  // Should there be no memory for the owner, its deleter runs at once.
  return std::shared_ptr<void>(
      memory, [pool = shared_from_this(), bytes](void* gone) { pool->PutBack(gone, bytes); });
}

absl::Status MemoryPool::AllocateOrTrim(size_t bytes, void*& memory) {
  const absl::Status allocated = Allocate(bytes, memory);
  if (!absl::IsResourceExhausted(allocated)) return allocated;
  Trim();
  return Allocate(bytes, memory);
}

void MemoryPool::PutBack(void* memory, size_t bytes) {
  absl::MutexLock lock(&mutex_);
  SizeClass& size = classes_[bytes];
  size.idle.push_back(memory);
  --size.used;
}

// Null: nothing is idle.
void* MemoryPool::PopIdle() {
  absl::MutexLock lock(&mutex_);
  for (auto& [bytes, size] : classes_) {
    if (size.idle.empty()) continue;
    void* memory = size.idle.back();
    size.idle.pop_back();
    return memory;
  }
  return nullptr;
}

void MemoryPool::Trim() {
  while (void* memory = PopIdle()) Free(memory);
}

size_t MemoryPool::used_bytes() const {
  absl::MutexLock lock(&mutex_);
  size_t sum = 0;
  for (const auto& [bytes, size] : classes_) sum += bytes * size.used;
  return sum;
}

size_t MemoryPool::idle_bytes() const {
  absl::MutexLock lock(&mutex_);
  size_t sum = 0;
  for (const auto& [bytes, size] : classes_) sum += bytes * size.idle.size();
  return sum;
}

}  // namespace latentd::device::cuda
