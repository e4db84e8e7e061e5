#include "server/calls/video_method.h"

#include "server/calls/event_bytes.h"
#include "server/calls/request_parser.h"

namespace latentd::server::calls {
namespace {

absl::Status ParseVideo(const grpc::ByteBuffer& bytes, generation::ParsedRequest& parsed) {
  latent::v1::GenerateVideoRequest& video = parsed.video.emplace();
  const absl::Status read = ParseRequest(bytes, video);
  parsed.request.set_request_id(video.request_id());
  return read;
}

}  // namespace

const StreamMethod kGenerateVideo = {"GenerateVideo", generation::Results::kVideos, ParseVideo,
                                     SerializeVideo};

}  // namespace latentd::server::calls
