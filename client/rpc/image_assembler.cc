#include "client/rpc/image_assembler.h"

#include <algorithm>
#include <string>
#include <utility>

namespace latentd::client {
namespace {

// A server that announces more is not believed.
constexpr int64_t kMaxImageBytes = int64_t{1} << 30;
// Most memory reserved for an image whose size a server only announces.
constexpr int64_t kMostRoom = int64_t{16} << 20;

grpc::Status DataLoss(const std::string& message) {
  return grpc::Status(grpc::StatusCode::DATA_LOSS, "the server's picture is broken: " + message);
}

}  // namespace

grpc::Status ImageAssembler::Add(const v1::ImageChunk& chunk) {
  const auto held = static_cast<int64_t>(image_.data().size());
  const auto bytes = static_cast<int64_t>(chunk.data().size());
  if (chunk.offset() != held) {
    return DataLoss("a part starts at byte " + std::to_string(chunk.offset()) + " instead of " +
                    std::to_string(held));
  }
  if (held == 0) {
    total_bytes_ = chunk.total_bytes();
    image_.set_index(chunk.index());
    image_.set_seed(chunk.seed());
    *image_.mutable_size() = chunk.size();
    image_.set_mime_type(chunk.mime_type());
    const int64_t room = std::clamp<int64_t>(total_bytes_, 0, kMostRoom);
    image_.mutable_data()->reserve(static_cast<size_t>(room));
  }
  if (chunk.index() != image_.index() || chunk.total_bytes() != total_bytes_) {
    return DataLoss("parts of two pictures are mixed");
  }
  if (total_bytes_ > kMaxImageBytes || bytes > total_bytes_ - held) {
    return DataLoss("it has more bytes than it should have");
  }
  image_.mutable_data()->append(chunk.data());
  complete_ = held + bytes == total_bytes_;
  return grpc::Status::OK;
}

v1::Image ImageAssembler::Take() {
  complete_ = false;
  return std::exchange(image_, v1::Image());
}

}  // namespace latentd::client
