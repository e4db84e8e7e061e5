#include "core/device/cuda/address_range.h"

#include <cuda_runtime_api.h>

#include <type_traits>

#include "absl/strings/str_cat.h"
#include "core/base/alignment.h"
#include "core/base/errors/status_macros.h"
#include "core/device/cuda/cuda_status.h"

namespace latentd::device::cuda {

struct AddressRange::Driver {
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

// The runtime has the driver's numbers.
absl::Status OfDriver(CUresult result, absl::string_view what) {
  return ToStatus(static_cast<cudaError_t>(result), what);
}

}  // namespace

AddressRange::AddressRange(int ordinal, const Driver& driver, CUdeviceptr base, size_t piece_bytes,
                           size_t pieces)
    : ordinal_(ordinal),
      driver_(std::make_unique<const Driver>(driver)),
      base_(base),
      piece_bytes_(piece_bytes),
      mapped_(pieces) {}

absl::StatusOr<std::unique_ptr<AddressRange>> AddressRange::Reserve(int ordinal, size_t bytes,
                                                                    size_t piece_bytes) {
  ASSIGN_OR_RETURN(const Driver driver, Driver::Find());
  const CUmemAllocationProp memory = MemoryOf(ordinal);
  size_t granule = 0;
  RETURN_IF_ERROR(OfDriver(driver.granularity(&granule, &memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                           "asking what a GPU maps at once"));
  if (piece_bytes % granule != 0) {
    return absl::InternalError(absl::StrCat("the GPU maps ", granule, " bytes at once"));
  }
  bytes = RoundUp(bytes, piece_bytes);
  CUdeviceptr base = 0;
  RETURN_IF_ERROR(OfDriver(driver.reserve(&base, bytes, 0, 0, 0),
                           absl::StrCat("GPU memory: reserving ", bytes, " addresses")));
  return std::unique_ptr<AddressRange>(
      new AddressRange(ordinal, driver, base, piece_bytes, bytes / piece_bytes));
}

// At the end of the process CUDA may be gone, and its memory with it.
AddressRange::~AddressRange() {
  if (!SelectToGiveBack(ordinal_)) return;
  for (size_t piece = 0; piece < mapped_.size(); ++piece) {
    if (mapped_[piece]) Unmap(piece);
  }
  driver_->free(base_, mapped_.size() * piece_bytes_);
}

absl::Status AddressRange::Map(size_t piece) {
  RETURN_IF_ERROR(SelectGpu(ordinal_));
  const CUmemAllocationProp properties = MemoryOf(ordinal_);
  CUmemGenericAllocationHandle memory = 0;
  RETURN_IF_ERROR(OfDriver(driver_->create(&memory, piece_bytes_, &properties, 0), "GPU memory"));
  const CUresult result = driver_->map(AddressOf(piece), piece_bytes_, 0, memory, 0);
  driver_->release(memory);  // mapped memory stays until it is unmapped
  RETURN_IF_ERROR(OfDriver(result, "mapping GPU memory"));
  mapped_[piece] = true;
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  const absl::Status accessible =
      OfDriver(driver_->set_access(AddressOf(piece), piece_bytes_, &access, 1),
               "access to mapped GPU memory");
  if (!accessible.ok()) Unmap(piece);
  return accessible;
}

void AddressRange::Unmap(size_t piece) {
  mapped_[piece] = false;
  if (SelectToGiveBack(ordinal_)) driver_->unmap(AddressOf(piece), piece_bytes_);
}

}  // namespace latentd::device::cuda
