// Memory that something needs for a moment: asked for before it is begun, and counted until it is
// done.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd {

// Counts as taken for as long as it lives. Not thread-safe; several may live on several threads.
class MemoryRoom {
 public:
  enum class Purpose { kDecodeImage, kEncodeVideo };

  // RESOURCE_EXHAUSTED with reason OUT_OF_MEMORY: `what` needs so many bytes, which this process
  // cannot get (core/base/process/memory_limit.h) so that 16 MiB stay free. What malloc keeps is
  // given back before that is said. Thread-safe.
  static absl::StatusOr<MemoryRoom> Take(int64_t bytes, absl::string_view what,
                                         Purpose purpose = Purpose::kDecodeImage);

  MemoryRoom(MemoryRoom&& other) noexcept
      : bytes_(std::exchange(other.bytes_, 0)), purpose_(other.purpose_) {}
  MemoryRoom& operator=(MemoryRoom&&) = delete;
  ~MemoryRoom();

  // Bytes that are taken now for that, by all of the process. Thread-safe.
  static int64_t taken(Purpose purpose);

 private:
  MemoryRoom(int64_t bytes, Purpose purpose);

  int64_t bytes_;
  Purpose purpose_;
};

}  // namespace latentd
