#include "core/device/cuda/cuda_status.h"

#include <atomic>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "core/base/errors/out_of_memory.h"
#include "core/device/device_fault.h"

namespace latentd::device::cuda {
namespace {

// By bits: a process sees fewer than 64 GPUs.
std::atomic<uint64_t> given_up = 0;

// CUDA's documentation: "the process must be terminated and relaunched".
bool IsSticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorDevicesUnavailable:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::Status ToStatus(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // or a launch on another GPU would be told of it
  const std::string message = absl::StrCat(what, ": ", cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) return OutOfMemoryError(message);
  return IsSticky(error) ? FaultError(message) : FailureOf(message);
}

// A fault if the device has failed, since every later call then ends with the same error.
absl::Status FailureOf(absl::string_view message) {
  size_t free = 0, total = 0;
  const cudaError_t error = cudaMemGetInfo(&free, &total);
  if (!IsSticky(error)) return absl::InternalError(message);
  return FaultError(absl::StrCat(message, ": ", cudaGetErrorString(error)));
}

void GiveUp(int ordinal) { given_up |= uint64_t{1} << ordinal; }

bool IsGivenUp(int ordinal) { return (given_up >> ordinal & 1) != 0; }

absl::Status SelectGpu(int ordinal) {
  if (IsGivenUp(ordinal)) return FaultError("selecting the GPU: it has failed");
  return ToStatus(cudaSetDevice(ordinal), "selecting the GPU");
}

bool SelectToGiveBack(int ordinal) {
  if (IsGivenUp(ordinal)) return false;
  if (cudaSetDevice(ordinal) == cudaSuccess) return true;
  cudaGetLastError();  // or a launch on another GPU would be told of it
  return false;
}

}  // namespace latentd::device::cuda
