#include "core/backends/cuda/arena.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/alignment.h"
#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/device/cuda/cuda_status.h"

namespace latentd::backends::cuda {

using device::cuda::ToStatus;

struct Arena::Driver {
  decltype(&cuMemGetAllocationGranularity) granularity;
  decltype(&cuMemAddressReserve) reserve;
  decltype(&cuMemAddressFree) free;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;

  static absl::StatusOr<Driver> Find() {
    constexpr unsigned kSince = 12000;
    Driver driver = {};
    absl::Status status;
    const auto find = [&](const char* name, auto& function) {
      void* found = nullptr;
      cudaDriverEntryPointQueryResult result;
      const cudaError_t error =
          cudaGetDriverEntryPointByVersion(name, &found, kSince, cudaEnableDefault, &result);
      if (error != cudaSuccess || found == nullptr) {
        status.Update(absl::FailedPreconditionError(
            absl::StrCat("the NVIDIA driver has no ", name, ": update the driver")));
      }
      function = reinterpret_cast<std::decay_t<decltype(function)>>(found);
    };
    find("cuMemGetAllocationGranularity", driver.granularity);
    find("cuMemAddressReserve", driver.reserve);
    find("cuMemAddressFree", driver.free);
    find("cuMemCreate", driver.create);
    find("cuMemRelease", driver.release);
    find("cuMemMap", driver.map);
    find("cuMemUnmap", driver.unmap);
    find("cuMemSetAccess", driver.set_access);
    RETURN_IF_ERROR(status);
    return driver;
  }
};

namespace {

CUmemAllocationProp MemoryOf(int ordinal) {
  CUmemAllocationProp memory = {};
  memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory.location = {CU_MEM_LOCATION_TYPE_DEVICE, {ordinal}};
  return memory;
}

absl::Status OutOfArena(size_t bytes, CUresult result) {
  return OutOfMemoryError(absl::StrCat("no GPU memory for ", bytes,
                                       " bytes of intermediates (CUDA error ",
                                       static_cast<int>(result), ")"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Arena>> Arena::Reserve(int ordinal, size_t bytes) {
  ASSIGN_OR_RETURN(const Driver driver, Driver::Find());
  const CUmemAllocationProp memory = MemoryOf(ordinal);
  size_t granule = 0;
  CUresult result = driver.granularity(&granule, &memory, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  if (result != CUDA_SUCCESS) return OutOfArena(bytes, result);
  CUdeviceptr base = 0;
  bytes = RoundUp(bytes, granule);
  result = driver.reserve(&base, bytes, 0, 0, 0);
  if (result != CUDA_SUCCESS) return OutOfArena(bytes, result);
  return std::shared_ptr<Arena>(new Arena(ordinal, base, bytes, granule));
}

Arena::~Arena() {
  const absl::StatusOr<Driver> driver = Driver::Find();
  if (!driver.ok() || cudaSetDevice(ordinal_) != cudaSuccess) return;
  if (last_run_ != nullptr) cudaEventDestroy(last_run_);
  CUdeviceptr at = base_;
  for (const Chunk& chunk : chunks_) {
    driver->unmap(at, chunk.bytes);
    driver->release(chunk.memory);
    at += chunk.bytes;
  }
  driver->free(base_, reserved_);
}

absl::Status Arena::Grow(size_t bytes) {
  ASSIGN_OR_RETURN(const Driver driver, Driver::Find());
  const CUmemAllocationProp memory = MemoryOf(ordinal_);
  Chunk chunk = {0, RoundUp(bytes, granule_) - mapped_};
  CUresult result = driver.create(&chunk.memory, chunk.bytes, &memory, 0);
  if (result != CUDA_SUCCESS) return OutOfArena(bytes, result);
  const CUmemAccessDesc access = {memory.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  result = driver.map(base_ + mapped_, chunk.bytes, 0, chunk.memory, 0);
  if (result == CUDA_SUCCESS) {
    result = driver.set_access(base_ + mapped_, chunk.bytes, &access, 1);
    if (result == CUDA_SUCCESS) {
      chunks_.push_back(chunk);
      mapped_ += chunk.bytes;
      return absl::OkStatus();
    }
    driver.unmap(base_ + mapped_, chunk.bytes);
  }
  driver.release(chunk.memory);
  return OutOfArena(bytes, result);
}

absl::StatusOr<std::unique_ptr<Arena::Lease>> Arena::Take(size_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (bytes > reserved_) return OutOfArena(bytes, CUDA_ERROR_OUT_OF_MEMORY);
  if (bytes > mapped_) RETURN_IF_ERROR(Grow(bytes));
  leases_.insert(bytes);
  return std::make_unique<Lease>(shared_from_this(), bytes);
}

// The last chunks go back once nobody needs them. Unmapping waits for all that the GPU does.
void Arena::Release(size_t bytes) {
  absl::MutexLock lock(&mutex_);
  leases_.erase(leases_.find(bytes));
  const size_t needed = leases_.empty() ? 0 : *leases_.rbegin();
  const absl::StatusOr<Driver> driver = Driver::Find();
  if (!driver.ok() || cudaSetDevice(ordinal_) != cudaSuccess) return;
  while (!chunks_.empty() && mapped_ - chunks_.back().bytes >= needed) {
    if (cudaDeviceSynchronize() != cudaSuccess) return;
    mapped_ -= chunks_.back().bytes;
    driver->unmap(base_ + mapped_, chunks_.back().bytes);
    driver->release(chunks_.back().memory);
    chunks_.pop_back();
  }
}

size_t Arena::bytes() const {
  absl::MutexLock lock(&mutex_);
  return leases_.empty() ? 0 : *leases_.rbegin();
}

absl::Status Arena::AwaitLast(cudaStream_t stream) {
  if (last_ == stream || last_run_ == nullptr) return absl::OkStatus();
  return ToStatus(cudaStreamWaitEvent(stream, last_run_, 0), "waiting for the arena");
}

absl::Status Arena::Remember(cudaStream_t stream) {
  if (last_run_ == nullptr) {
    RETURN_IF_ERROR(
        ToStatus(cudaEventCreateWithFlags(&last_run_, cudaEventDisableTiming), "making an event"));
  }
  last_ = stream;
  return ToStatus(cudaEventRecord(last_run_, stream), "recording an event");
}

}  // namespace latentd::backends::cuda
