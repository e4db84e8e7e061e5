#include "server/calls/video_method.h"

#include "core/base/errors/status_macros.h"
#include "server/calls/event_bytes.h"
#include "server/calls/request_parser.h"
#include "server/generation/conversion/request_form.h"

namespace latentd::server::calls {
namespace {

absl::Status ParseVideo(const grpc::ByteBuffer& bytes, generation::ParsedRequest& parsed) {
  latent::v1::GenerateVideoRequest& video = parsed.video.emplace();
  const absl::Status read = ParseRequest(bytes, video);
  parsed.request.set_request_id(video.request_id());
  return read;
}

absl::Status ReadResumeVideo(const grpc::ByteBuffer& bytes, generation::Resumption& asked) {
  ASSIGN_OR_RETURN(const auto request, ReadRequest<latent::v1::ResumeVideoRequest>(bytes));
  asked = {.request_id = request.request_id(), .bytes = request.received_bytes()};
  return generation::CheckForm(request);
}

}  // namespace

const StreamMethod kGenerateVideo = {"GenerateVideo", generation::Results::kVideos, ParseVideo,
                                     SerializeVideo};
const StreamMethod kResumeVideo = {generation::kResumeVideoMethod, generation::Results::kVideos,
                                   nullptr, SerializeVideo, ReadResumeVideo};

}  // namespace latentd::server::calls
