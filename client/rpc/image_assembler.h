// Pictures from their chunks.
#pragma once

#include <grpcpp/support/status.h>

#include "latent/v1/image_generation.pb.h"

namespace latentd::client {

namespace v1 = ::latent::v1;

// Not thread-safe.
class ImageAssembler {
 public:
  // DATA_LOSS where the chunk is not the next one of the picture, or not within its bounds.
  grpc::Status Add(const v1::ImageChunk& chunk);

  // Bytes of the image that is not complete.
  int64_t held_bytes() const { return static_cast<int64_t>(image_.data().size()); }

  // True if the last Add made an image complete.
  bool complete() const { return complete_; }

  // The picture, once. REQUIRES: complete().
  v1::Image Take();

 private:
  v1::Image image_;
  int64_t total_bytes_ = 0;
  bool complete_ = false;
};

}  // namespace latentd::client
