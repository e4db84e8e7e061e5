// Addresses of a GPU, reserved once, backed by memory in pieces of one size that are mapped and
// unmapped one by one: contents of one do not move with others.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace latentd::device::cuda {

// Thread-compatible.
class AddressRange {
 public:
  // Reserves addresses of the GPU with CUDA's number `ordinal`; `bytes` are rounded up to whole
  // pieces. REQUIRES: the GPU is selected on this thread. FAILED_PRECONDITION, which says what to
  // do: a driver that is too old; INTERNAL: pieces that are no multiple of what the GPU maps at
  // once; RESOURCE_EXHAUSTED: no range of so many addresses.
  static absl::StatusOr<std::unique_ptr<AddressRange>> Reserve(int ordinal, size_t bytes,
                                                               size_t piece_bytes);
  // REQUIRES: nothing that was enqueued uses it.
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;

  char* base() const { return reinterpret_cast<char*>(base_); }
  size_t pieces() const { return mapped_.size(); }

  // RESOURCE_EXHAUSTED with reason OUT_OF_MEMORY: the GPU has none left. REQUIRES: it is not
  // mapped.
  absl::Status Map(size_t piece);
  // The GPU has its memory back. REQUIRES: it is mapped, and nothing that was enqueued uses it.
  void Unmap(size_t piece);

 private:
  // Driver functions: the program starts without the driver's library.
  struct Driver;

  AddressRange(int ordinal, const Driver& driver, CUdeviceptr base, size_t piece_bytes,
               size_t pieces);
  CUdeviceptr AddressOf(size_t piece) const { return base_ + piece * piece_bytes_; }

  const int ordinal_;
  const std::unique_ptr<const Driver> driver_;
  const CUdeviceptr base_;
  const size_t piece_bytes_;
  std::vector<bool> mapped_;  // by piece
};

}  // namespace latentd::device::cuda
