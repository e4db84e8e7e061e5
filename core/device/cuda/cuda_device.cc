#include "core/device/cuda/cuda_device.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/device/cuda/address_range.h"
#include "core/device/cuda/cuda_status.h"
#include "core/device/cuda/cuda_stream.h"
#include "core/device/host_device.h"

namespace latentd::device::cuda {
namespace {

constexpr int kLeastCapability = 80;

std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// Want of memory is no error that a later call is to find.
absl::Status ToldStatus(cudaError_t error, absl::string_view what) {
  if (error == cudaErrorMemoryAllocation) cudaGetLastError();
  return ToStatus(error, what);
}

// CUDA's stream-ordered pool, in which weights are made, keeps this part of a GPU's memory between
// two of them: by itself it returns all to the driver whenever a stream is waited for. Eight
// threads that merge SDXL's largest linears have 1.5 GB at a time.
constexpr uint64_t kPartOfStreams = 64;

absl::Status KeepMemoryOfStreams(int ordinal, int64_t memory_bytes) {
  cudaMemPool_t of_streams = nullptr;
  RETURN_IF_ERROR(ToStatus(cudaDeviceGetDefaultMemPool(&of_streams, ordinal), "a GPU's pool"));
  uint64_t kept = static_cast<uint64_t>(memory_bytes) / kPartOfStreams;
  return ToStatus(cudaMemPoolSetAttribute(of_streams, cudaMemPoolAttrReleaseThreshold, &kept),
                  "a GPU's pool");
}

// REQUIRES: the GPU is selected.
void TrimMemoryOfStreams(int ordinal) {
  cudaMemPool_t of_streams = nullptr;
  if (cudaDeviceGetDefaultMemPool(&of_streams, ordinal) != cudaSuccess) return;
  cudaMemPoolTrimTo(of_streams, 0);
}

// Bytes that the pool keeps, and nothing uses; 0 where the driver does not answer.
size_t IdleMemoryOfStreams(int ordinal) {
  cudaMemPool_t of_streams = nullptr;
  uint64_t used = 0, reserved = 0;
  if (cudaDeviceGetDefaultMemPool(&of_streams, ordinal) != cudaSuccess ||
      cudaMemPoolGetAttribute(of_streams, cudaMemPoolAttrUsedMemCurrent, &used) != cudaSuccess ||
      cudaMemPoolGetAttribute(of_streams, cudaMemPoolAttrReservedMemCurrent, &reserved) !=
          cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return std::max(reserved, used) - used;
}

// By whatever thread asks.
MemoryDriver GpuMemory(int ordinal) {
  const auto allocate = [ordinal](size_t bytes, void*& memory) -> absl::Status {
    RETURN_IF_ERROR(SelectGpu(ordinal));
    const absl::Status taken = ToldStatus(cudaMalloc(&memory, bytes), "GPU memory");
    if (!absl::IsResourceExhausted(taken)) return taken;
    TrimMemoryOfStreams(ordinal);
    return ToldStatus(cudaMalloc(&memory, bytes), "GPU memory");
  };
  // At the end of the process CUDA may be gone, and its memory with it.
  const auto free = [ordinal](void* memory) {
    if (SelectToGiveBack(ordinal)) cudaFree(memory);
  };
  return {allocate, free};
}

// Pinned memory of the host, which all GPUs can copy from and to.
MemoryDriver PinnedMemory(int ordinal) {
  const auto allocate = [ordinal](size_t bytes, void*& memory) -> absl::Status {
    RETURN_IF_ERROR(SelectGpu(ordinal));
    return ToldStatus(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable), "pinned memory");
  };
  const auto free = [ordinal](void* memory) {
    if (SelectToGiveBack(ordinal)) cudaFreeHost(memory);
  };
  return {allocate, free};
}

absl::Status CheckDriver(int& driver, int& runtime) {
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) {
    return absl::FailedPreconditionError(
        "no NVIDIA driver: libcuda.so.1 cannot be loaded. Install one of 580 or newer; in a "
        "container, pass the GPU in (--gpus, or a device plugin's resource)");
  }
  if (driver / 1000 >= runtime / 1000) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the NVIDIA driver is for CUDA ", VersionText(driver), ", and this build needs one for CUDA ",
      runtime / 1000, ".0 or newer: update the driver, to 580 or newer"));
}

absl::StatusOr<CudaProperties> PropertiesOf(int ordinal) {
  CudaProperties properties;
  RETURN_IF_ERROR(CheckDriver(properties.driver_version, properties.runtime_version));
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || ordinal < 0 || ordinal >= count) {
    return absl::FailedPreconditionError(
        absl::StrCat("no GPU ", ordinal, ": the driver shows ", count,
                     error == cudaSuccess ? "" : absl::StrCat(" (", cudaGetErrorString(error), ")"),
                     "; CUDA_VISIBLE_DEVICES decides which"));
  }
  cudaDeviceProp of_cuda = {};
  RETURN_IF_ERROR(ToStatus(cudaGetDeviceProperties(&of_cuda, ordinal), "the GPU's properties"));
  properties.name = of_cuda.name;
  properties.compute_capability = of_cuda.major * 10 + of_cuda.minor;
  properties.multiprocessors = of_cuda.multiProcessorCount;
  properties.memory_bytes = static_cast<int64_t>(of_cuda.totalGlobalMem);
  if (properties.compute_capability >= kLeastCapability) return properties;
  return absl::FailedPreconditionError(
      absl::StrCat("GPU ", ordinal, ", ", properties.name, ", has compute capability ",
                   properties.compute_capability / 10, ".", properties.compute_capability % 10,
                   ": 8.0 or newer is needed"));
}

}  // namespace

CudaDevice::CudaDevice(int ordinal, CudaProperties properties)
    : ordinal_(ordinal),
      properties_(std::move(properties)),
      memory_(std::make_shared<MemoryPool>(GpuMemory(ordinal))),
      pinned_(std::make_shared<MemoryPool>(PinnedMemory(ordinal))) {}

CudaDevice::~CudaDevice() {
  if (fills_ != nullptr && SelectToGiveBack(ordinal_)) cudaStreamDestroy(fills_);
}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(int ordinal) {
  ASSIGN_OR_RETURN(CudaProperties properties, PropertiesOf(ordinal));
  std::unique_ptr<CudaDevice> device(new CudaDevice(ordinal, std::move(properties)));
  RETURN_IF_ERROR(device->Select());
  int least = 0, most = 0;
  RETURN_IF_ERROR(ToStatus(cudaDeviceGetStreamPriorityRange(&least, &most), "stream priorities"));
  // A stream of its own, so that zeroing memory does not wait for the device's other work.
  RETURN_IF_ERROR(
      ToStatus(cudaStreamCreateWithPriority(&device->fills_, cudaStreamNonBlocking, most),
               "making a stream"));
  RETURN_IF_ERROR(KeepMemoryOfStreams(ordinal, device->properties().memory_bytes));
  RETURN_IF_ERROR(device->ReservePacked());
  return device;
}

absl::Status CudaDevice::ReservePacked() {
  // Addresses cost nothing: so many that holes do not use them up before the memory.
  const size_t addresses = 2 * static_cast<size_t>(properties_.memory_bytes);
  // To map one takes some 0.15 ms, of 16 MiB too, and a set of LoRAs has 4.2 GB.
  constexpr size_t kPiece = size_t{64} << 20;
  ASSIGN_OR_RETURN(auto reserved, AddressRange::Reserve(ordinal_, addresses, kPiece));
  const std::shared_ptr<AddressRange> range = std::move(reserved);
  const auto map = [range, pool = memory_, ordinal = ordinal_](size_t piece) {
    const absl::Status mapped = range->Map(piece);
    if (!absl::IsResourceExhausted(mapped)) return mapped;
    pool->GiveBack(Kept::kAll);
    TrimMemoryOfStreams(ordinal);
    return range->Map(piece);
  };
  const auto unmap = [range](size_t piece) { range->Unmap(piece); };
  packed_ = std::make_shared<Heap>(Pieces{range->base(), range->pieces(), kPiece, map, unmap});
  return absl::OkStatus();
}

absl::Status CudaDevice::Select() const { return SelectGpu(ordinal_); }

absl::StatusOr<Buffer> CudaDevice::AllocatePacked(DType dtype, Shape shape) {
  ASSIGN_OR_RETURN(std::shared_ptr<void> memory,
                   packed_->Take(static_cast<size_t>(shape.elements() * SizeOf(dtype))));
  void* data = memory.get();
  return Buffer::Wrap(data, dtype, std::move(shape), std::move(memory), Place::kDevice);
}

absl::StatusOr<Buffer> CudaDevice::Allocate(DType dtype, Shape shape, Place place) {
  if (place == Place::kHost) return Host().Allocate(dtype, std::move(shape), place);
  MemoryPool& pool = place == Place::kDevice ? *memory_ : *pinned_;
  const auto bytes = static_cast<size_t>(shape.elements() * SizeOf(dtype));
  ASSIGN_OR_RETURN(std::shared_ptr<void> memory, pool.Take(bytes));
  if (place == Place::kDevice) return WrapOnGpu(std::move(memory), dtype, std::move(shape));
  std::memset(memory.get(), 0, bytes);
  void* data = memory.get();
  return Buffer::Wrap(data, dtype, std::move(shape), std::move(memory), place);
}

absl::StatusOr<Buffer> CudaDevice::WrapOnGpu(std::shared_ptr<void> memory, DType dtype,
                                             Shape shape) {
  RETURN_IF_ERROR(Select());
  void* data = memory.get();
  const auto bytes = static_cast<size_t>(shape.elements() * SizeOf(dtype));
  RETURN_IF_ERROR(ToStatus(cudaMemsetAsync(data, 0, bytes, fills_), "filling memory"));
  RETURN_IF_ERROR(ToStatus(cudaStreamSynchronize(fills_), "filling memory"));
  return Buffer::Wrap(data, dtype, std::move(shape), std::move(memory), Place::kDevice);
}

absl::StatusOr<std::unique_ptr<Stream>> CudaDevice::NewStream(const Clock& clock) {
  RETURN_IF_ERROR(Select());
  return CudaStream::Create(ordinal_, clock);
}

// Without access of one to the other the driver copies by pinned memory of its own; so it does
// where a GPU reaches more others than it may have access to.
absl::Status CudaDevice::Meet(const Device& other) {
  const int peer = static_cast<const CudaDevice&>(other).ordinal();
  RETURN_IF_ERROR(Select());
  int reaches = 0;
  RETURN_IF_ERROR(
      ToStatus(cudaDeviceCanAccessPeer(&reaches, ordinal_, peer), "asking for access of GPUs"));
  if (reaches == 0) return absl::OkStatus();
  const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
  if (error != cudaErrorPeerAccessAlreadyEnabled && error != cudaErrorTooManyPeers) {
    return ToStatus(error, "access of GPUs");
  }
  cudaGetLastError();  // or the next launch would be told of it
  return absl::OkStatus();
}

absl::Status CudaDevice::Copy(ConstBuffer from, Buffer to, Stream& stream) {
  assert(from.bytes() == to.bytes());
  auto& on = static_cast<CudaStream&>(stream);
  RETURN_IF_ERROR(Select());
  on.Keep(std::make_shared<const std::pair<ConstBuffer, Buffer>>(from, to));
  if (from.place() == Place::kHost && to.place() == Place::kDevice) {
    return Upload(from.data(), to.data(), to.bytes(), on.handle());
  }
  return ToStatus(
      cudaMemcpyAsync(to.data(), from.data(), to.bytes(), cudaMemcpyDefault, on.handle()),
      "copying");
}

absl::Status CudaDevice::AskDriver(size_t& free, size_t& total) const {
  RETURN_IF_ERROR(Select());
  return ToStatus(cudaMemGetInfo(&free, &total), "asking for free memory");
}

absl::StatusOr<AvailableMemory> CudaDevice::Available() const {
  size_t free = 0, total = 0;
  RETURN_IF_ERROR(AskDriver(free, total));
  const size_t idle = memory_->idle_bytes() + IdleMemoryOfStreams(ordinal_);
  return AvailableMemory{static_cast<int64_t>(free + idle), properties_.name};
}

void CudaDevice::Trim() {
  memory_->GiveBack(Kept::kAll);
  if (Select().ok()) TrimMemoryOfStreams(ordinal_);
}

void CudaDevice::GiveBack(Kept what) {
  memory_->GiveBack(what);
  pinned_->GiveBack(what);
  if (Select().ok()) TrimMemoryOfStreams(ordinal_);
}

DeviceMemory CudaDevice::Memory() const {
  size_t free = 0, total = 0, of_streams = 0;
  if (AskDriver(free, total).ok()) {
    of_streams = IdleMemoryOfStreams(ordinal_);
  } else {
    free = total = 0;
  }
  const size_t used = packed_->used_bytes();  // first: there may be more when the other is asked
  const size_t holes = std::max(packed_->mapped_bytes(), used) - used;
  return {.total = static_cast<int64_t>(total),
          .free = static_cast<int64_t>(free),
          .idle = static_cast<int64_t>(memory_->idle_bytes() + of_streams + holes),
          .pinned = static_cast<int64_t>(pinned_->used_bytes() + pinned_->idle_bytes())};
}

}  // namespace latentd::device::cuda
