#include "core/backends/cuda/arena.h"

#include <string>

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

absl::Status ToStatus(CUresult result, size_t bytes) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const std::string message = absl::StrCat(
      "GPU memory for ", bytes, " bytes of intermediates: CUDA error ", static_cast<int>(result));
  return result == CUDA_ERROR_OUT_OF_MEMORY ? OutOfMemoryError(message)
                                            : absl::InternalError(message);
}

}  // namespace

absl::StatusOr<std::shared_ptr<Arena>> Arena::Reserve(device::cuda::CudaDevice& device,
                                                      size_t bytes) {
  RETURN_IF_ERROR(device.Select());
  ASSIGN_OR_RETURN(const Driver driver, Driver::Find());
  const CUmemAllocationProp memory = MemoryOf(device.ordinal());
  size_t granule = 0;
  RETURN_IF_ERROR(
      ToStatus(driver.granularity(&granule, &memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM), bytes));
  if (kPiece % granule != 0) {
    return absl::InternalError(absl::StrCat("the GPU maps ", granule, " bytes at once"));
  }
  cudaEvent_t last_run = nullptr;
  RETURN_IF_ERROR(
      ToStatus(cudaEventCreateWithFlags(&last_run, cudaEventDisableTiming), "making an event"));
  CUdeviceptr base = 0;
  bytes = RoundUp(bytes, kPiece);
  const CUresult result = driver.reserve(&base, bytes, 0, 0, 0);
  if (result == CUDA_SUCCESS) {
    return std::shared_ptr<Arena>(new Arena(device, base, bytes, last_run));
  }
  cudaEventDestroy(last_run);
  return ToStatus(result, bytes);
}

Arena::~Arena() {
  const absl::StatusOr<Driver> driver = Driver::Find();
  if (!driver.ok() || !device_.Select().ok()) return;
  cudaEventDestroy(last_run_);
  absl::MutexLock lock(&mutex_);
  while (!pieces_.empty()) Shrink(*driver);
  driver->free(base_, reserved_);
}

// By one piece.
absl::Status Arena::Grow(const Driver& driver) {
  const CUmemAllocationProp properties = MemoryOf(device_.ordinal());
  CUmemGenericAllocationHandle memory = 0;
  CUresult result = driver.create(&memory, kPiece, &properties, 0);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    device_.Trim();
    result = driver.create(&memory, kPiece, &properties, 0);
  }
  RETURN_IF_ERROR(ToStatus(result, mapped() + kPiece));
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  result = driver.map(base_ + mapped(), kPiece, 0, memory, 0);
  if (result != CUDA_SUCCESS) {
    driver.release(memory);
    return ToStatus(result, mapped() + kPiece);
  }
  pieces_.push_back(memory);
  result = driver.set_access(base_ + mapped() - kPiece, kPiece, &access, 1);
  if (result != CUDA_SUCCESS) Shrink(driver);
  return ToStatus(result, mapped() + kPiece);
}

// By one piece. REQUIRES: no run uses it.
void Arena::Shrink(const Driver& driver) {
  const CUmemGenericAllocationHandle memory = pieces_.back();
  pieces_.pop_back();
  driver.unmap(base_ + mapped(), kPiece);
  driver.release(memory);
}

absl::StatusOr<std::unique_ptr<Arena::Lease>> Arena::Take(size_t bytes) {
  ASSIGN_OR_RETURN(const Driver driver, Driver::Find());
  absl::MutexLock lock(&mutex_);
  if (bytes > reserved_) return ToStatus(CUDA_ERROR_OUT_OF_MEMORY, bytes);
  while (mapped() < bytes) RETURN_IF_ERROR(Grow(driver));
  leases_.insert(bytes);
  return std::make_unique<Lease>(shared_from_this(), bytes);
}

// What only the lease that goes has used may be in use by its last run.
void Arena::Release(size_t bytes) {
  const absl::StatusOr<Driver> driver = Driver::Find();
  const bool idle =
      driver.ok() && device_.Select().ok() && cudaEventSynchronize(last_run_) == cudaSuccess;
  absl::MutexLock lock(&mutex_);
  leases_.erase(leases_.find(bytes));
  const size_t needed = leases_.empty() ? 0 : *leases_.rbegin();
  while (idle && mapped() >= needed + kPiece) Shrink(*driver);
}

size_t Arena::bytes() const {
  absl::MutexLock lock(&mutex_);
  return leases_.empty() ? 0 : *leases_.rbegin();
}

absl::Status Arena::AwaitLast(cudaStream_t stream) {
  if (last_ == stream) return absl::OkStatus();
  return ToStatus(cudaStreamWaitEvent(stream, last_run_, 0), "waiting for the arena");
}

// The run is on the stream in any case: what cannot wait for it on the GPU must find it done.
absl::Status Arena::Remember(cudaStream_t stream) {
  last_ = stream;
  const absl::Status recorded = ToStatus(cudaEventRecord(last_run_, stream), "recording an event");
  if (recorded.ok()) return recorded;
  return ToStatus(cudaStreamSynchronize(stream), "waiting for a run");
}

}  // namespace latentd::backends::cuda
