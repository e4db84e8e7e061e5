#include "core/device/memory_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "core/base/errors/status_macros.h"

namespace latentd::device {

// Small sizes share: powers of two up to 1 MiB, multiples of 2 MiB beyond.
size_t MemoryPool::RoundedUp(size_t bytes) {
  constexpr size_t kLeast = 512, kSmall = size_t{1} << 20, kStep = size_t{2} << 20;
  if (bytes <= kSmall) return std::bit_ceil(std::max(bytes, kLeast));
  return (bytes + kStep - 1) / kStep * kStep;
}

MemoryPool::~MemoryPool() { GiveBack(Kept::kAll); }

void* MemoryPool::TakeIdle(size_t bytes) {
  absl::MutexLock lock(&mutex_);
  SizeClass& size = classes_[bytes];
  size.idle.reserve(size.idle.size() + size.used + 1);  // so that putting back asks for no memory
  ++size.used;
  if (size.idle.empty()) return nullptr;
  void* memory = size.idle.back();
  size.idle.pop_back();
  size.unused = std::min(size.unused, size.idle.size());
  return memory;
}

absl::StatusOr<std::shared_ptr<void>> MemoryPool::Take(size_t bytes) {
  bytes = RoundedUp(bytes);
  void* memory = TakeIdle(bytes);
  if (memory == nullptr) {
    absl::Cleanup none = [&] {
      absl::MutexLock lock(&mutex_);
      --classes_[bytes].used;
    };
    RETURN_IF_ERROR(AllocateOrGiveBack(bytes, memory));
    std::move(none).Cancel();
  }
  // Should there be no memory for the owner, its deleter runs at once.
  return std::shared_ptr<void>(
      memory, [pool = shared_from_this(), bytes](void* gone) { pool->PutBack(gone, bytes); });
}

absl::Status MemoryPool::AllocateOrGiveBack(size_t bytes, void*& memory) {
  const absl::Status allocated = driver_.allocate(bytes, memory);
  if (!absl::IsResourceExhausted(allocated)) return allocated;
  GiveBack(Kept::kAll);
  return driver_.allocate(bytes, memory);
}

void MemoryPool::PutBack(void* memory, size_t bytes) {
  absl::MutexLock lock(&mutex_);
  SizeClass& size = classes_[bytes];
  size.idle.push_back(memory);
  --size.used;
}

void* MemoryPool::PopFor(Kept what) {
  absl::MutexLock lock(&mutex_);
  for (auto& [bytes, size] : classes_) {
    if ((what == Kept::kAll ? size.idle.size() : size.unused) == 0) continue;
    void* memory = size.idle.front();
    size.idle.erase(size.idle.begin());
    size.unused -= std::min<size_t>(size.unused, 1);
    return memory;
  }
  return nullptr;
}

// Without the lock where the driver takes its time.
void MemoryPool::GiveBack(Kept what) {
  while (void* memory = PopFor(what)) driver_.free(memory);
  absl::MutexLock lock(&mutex_);
  for (auto& [bytes, size] : classes_) size.unused = size.idle.size();
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

}  // namespace latentd::device
