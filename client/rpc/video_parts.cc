#include "client/rpc/video_parts.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace latentd::client {
namespace {

constexpr int64_t kEnded = -1;

grpc::Status BrokenVideo(const std::string& message) {
  return {grpc::StatusCode::DATA_LOSS, absl::StrCat("the server's video is broken: ", message)};
}

}  // namespace

grpc::Status VideoParts::Add(const v1::VideoChunk& chunk) {
  int64_t& held = bytes_[chunk.video_index()];
  if (held == kEnded) return BrokenVideo("it goes on behind its end");
  if (chunk.offset() != held) {
    return BrokenVideo(
        absl::StrCat("a part starts at byte ", chunk.offset(), " instead of ", held));
  }
  held += static_cast<int64_t>(chunk.data().size());
  if (chunk.total_bytes() != 0 && held > chunk.total_bytes()) {
    return BrokenVideo("it has more bytes than it should have");
  }
  if (Ends(chunk)) held = kEnded;
  return grpc::Status::OK;
}

grpc::Status VideoParts::CheckComplete() const {
  const bool complete = std::all_of(bytes_.begin(), bytes_.end(),
                                    [](const auto& video) { return video.second == kEnded; });
  return complete ? grpc::Status::OK : BrokenVideo("its last part is missing");
}

}  // namespace latentd::client
