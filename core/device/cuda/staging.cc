#include "core/device/cuda/staging.h"

#include <algorithm>
#include <cstring>

#include "core/base/errors/status_macros.h"
#include "core/device/cuda/cuda_status.h"

namespace latentd::device::cuda {
namespace {

absl::Status CopyByDriver(const void* from, void* to, size_t bytes, cudaStream_t stream) {
  return ToStatus(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "uploading");
}

}  // namespace

Staging::~Staging() {
  for (const Piece& piece : idle_) Free(piece);
}

absl::Status Staging::Allocate(Piece& piece) {
  void* memory = nullptr;
  RETURN_IF_ERROR(ToStatus(cudaHostAlloc(&memory, kPieceBytes, cudaHostAllocDefault), "staging"));
  piece.memory = static_cast<char*>(memory);
  const absl::Status made =
      ToStatus(cudaEventCreateWithFlags(&piece.read, cudaEventDisableTiming), "staging");
  if (!made.ok()) Free(piece);
  return made;
}

void Staging::Free(const Piece& piece) {
  if (piece.read != nullptr) cudaEventDestroy(piece.read);
  cudaFreeHost(piece.memory);
}

absl::Status Staging::Take(Piece& piece) {
  {
    absl::MutexLock lock(&mutex_, absl::Condition(this, &Staging::MayTake));
    if (idle_.empty()) {
      ++pieces_;
    } else {
      piece = idle_.front();
      idle_.pop_front();
    }
  }
  // One that was never used has an event that is reached.
  if (piece.memory != nullptr) return ToStatus(cudaEventSynchronize(piece.read), "uploading");
  absl::Status made = Allocate(piece);
  if (made.ok()) return made;
  piece = {};
  absl::MutexLock lock(&mutex_);
  --pieces_;
  return made;
}

void Staging::PutBack(const Piece& piece) {
  absl::MutexLock lock(&mutex_);
  idle_.push_back(piece);
}

absl::Status Staging::UploadPiece(const void* from, void* to, size_t bytes, cudaStream_t stream) {
  Piece piece;
  absl::Status taken = Take(piece);
  if (piece.memory == nullptr) {
    cudaGetLastError();  // or the next launch would be told of it
    return CopyByDriver(from, to, bytes, stream);
  }
  if (taken.ok()) {
    std::memcpy(piece.memory, from, bytes);
    taken = CopyByDriver(piece.memory, to, bytes, stream);
    const absl::Status recorded = ToStatus(cudaEventRecord(piece.read, stream), "uploading");
    if (taken.ok()) taken = recorded;
  }
  PutBack(piece);
  return taken;
}

absl::Status Staging::Upload(const void* from, void* to, size_t bytes, cudaStream_t stream) {
  if (bytes < kLeastBytes) return CopyByDriver(from, to, bytes, stream);
  for (size_t at = 0; at < bytes; at += kPieceBytes) {
    RETURN_IF_ERROR(UploadPiece(static_cast<const char*>(from) + at, static_cast<char*>(to) + at,
                                std::min(kPieceBytes, bytes - at), stream));
  }
  return absl::OkStatus();
}

}  // namespace latentd::device::cuda
