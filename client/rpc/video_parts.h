// Files of videos from their chunks, which are handed on as they come: a file may be larger than
// memory.
#pragma once

#include <grpcpp/support/status.h>

#include <cstdint>
#include <map>

#include "latent/v1/video_generation.pb.h"

namespace latentd::client {

namespace v1 = ::latent::v1;

// Not thread-safe.
class VideoParts {
 public:
  // DATA_LOSS where the chunk is not the next one of its video's file, or not within its bounds.
  grpc::Status Add(const v1::VideoChunk& chunk);

  // DATA_LOSS where a file has begun and not ended.
  grpc::Status CheckComplete() const;

  bool empty() const { return bytes_.empty(); }

  // True if the file ends with that chunk.
  static bool Ends(const v1::VideoChunk& chunk) {
    return chunk.offset() + static_cast<int64_t>(chunk.data().size()) == chunk.total_bytes();
  }

 private:
  std::map<int, int64_t> bytes_;  // by video: those that have come; kEnded: all
};

}  // namespace latentd::client
