// A client of latentd for C++ programs: calls, and pictures put together from their chunks. Knows
// the proto only.
//
//   latentd::client::Client client("127.0.0.1:50051");
//   latent::v1::GenerateRequest request;
//   request.set_prompt("a large yellow star on a purple background");
//   std::vector<latent::v1::Image> images;
//   grpc::Status status = client.Generate(request, {
//       .on_image = [&](latent::v1::Image image) { images.push_back(std::move(image)); }});
#pragma once

#include <grpcpp/channel.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/rpc/cancellation.h"
#include "client/rpc/channel.h"
#include "client/rpc/image_assembler.h"
#include "client/rpc/retry.h"
#include "client/rpc/video_parts.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "latent/v1/image_generation.grpc.pb.h"
#include "latent/v1/video_generation.grpc.pb.h"

namespace latentd::client {

namespace v1 = ::latent::v1;

// Called from the thread that called Generate, in the order in which things happen. Empty ones are
// skipped.
struct GenerateCallbacks {
  // queued, started, progress, preview, completed; from the beginning after a retry
  std::function<void(const v1::GenerateEvent&)> on_event;
  std::function<void(v1::Image)> on_image;
  std::function<void(const Retry&)> on_retry;
};

// A frame of a video, in the file format that was asked for.
struct VideoFrame {
  int video = 0, frame = 0;  // from 0
  v1::Image image;           // without an index
};

// As GenerateCallbacks.
struct VideoCallbacks {
  // queued, started, progress, preview, completed; from the beginning after a retry
  std::function<void(const v1::VideoEvent&)> on_event;
  std::function<void(VideoFrame)> on_frame;
  // The next part of a video's file, where output.file asks for one: those of one file come in
  // order and without gaps (VideoParts::Ends says which is its last).
  std::function<void(const v1::VideoChunk&)> on_part;
  std::function<void(const Retry&)> on_retry;
};

// Thread-safe: calls may run side by side.
class Client {
 public:
  // HOST:PORT or unix:PATH; without `tls` in plain text. Connects when first used. `api_key` goes
  // with every call, of visible characters of ASCII; empty: none does.
  explicit Client(const std::string& server, const RetryPolicy& retries = {},
                  const std::optional<Tls>& tls = std::nullopt, std::string api_key = "");

  // GenerateStream, to its end; blocks. Tells balancers in which bucket it will run (metadata
  // x-latent-bucket: 256x256), and tries again what is safe to try again (client/rpc/retry.h);
  // where the request has no seed it gets one, so that every try draws the same. Waiting and the
  // work on the server stop when `timeout` passes or Cancel is called.
  //
  // A stream of a request with `resumable` (which gets a request_id where it has none) is taken up
  // again where it broke, for as many times as there are tries.
  grpc::Status Generate(const v1::GenerateRequest& request, const GenerateCallbacks& callbacks,
                        std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  // GenerateVideo, to its end; the same, but for balancers. DATA_LOSS where the last part of a file
  // is missing.
  grpc::Status GenerateVideo(const v1::GenerateVideoRequest& request,
                             const VideoCallbacks& callbacks,
                             std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  // Encode, once; blocks, until `timeout` passes or Cancel is called.
  grpc::Status Encode(const v1::EncodeRequest& request, absl::Duration timeout,
                      v1::EncodeResponse& response);

  grpc::Status GetCapabilities(v1::GetCapabilitiesResponse& capabilities);
  grpc::Status GetVideoCapabilities(v1::GetVideoCapabilitiesResponse& capabilities);

  // Asks the health service for the status of `service`; "" is the server as a whole.
  grpc::Status CheckHealth(const std::string& service,
                           grpc::health::v1::HealthCheckResponse::ServingStatus& status);

  // Ends what runs with CANCELLED, and what is started later.
  void Cancel() { cancellation_.Cancel(); }

 private:
  // Results so far of one request, over all tries.
  struct Reception {
    int tries = 0;
    bool has_begun = false;   // the server has said something of it
    bool is_resumed = false;  // the next call is one of ResumeStream
    int images = 0;           // received whole
    ImageAssembler assembler;
  };

  // The same of one for videos.
  struct VideoReception {
    int tries = 0;
    bool has_begun = false;
    bool is_resumed = false;
    bool has_frame = false;  // a frame is whole
    int64_t bytes = 0;       // bytes of all chunks
    ImageAssembler assembler;
    VideoParts parts;
  };

  Attempt TryGenerate(const v1::GenerateRequest& request, const GenerateCallbacks& callbacks,
                      absl::Time deadline, Reception& reception);
  grpc::Status CallOnce(const v1::GenerateRequest& request, const GenerateCallbacks& callbacks,
                        absl::Time deadline, Reception& reception);
  Attempt TryVideo(const v1::GenerateVideoRequest& request, const VideoCallbacks& callbacks,
                   absl::Time deadline, VideoReception& reception);
  grpc::Status CallVideoOnce(const v1::GenerateVideoRequest& request,
                             const VideoCallbacks& callbacks, absl::Time deadline,
                             VideoReception& reception);
  // As AddChunk, of frames and files.
  static grpc::Status AddToVideo(v1::VideoEvent& event, const VideoCallbacks& callbacks,
                                 VideoReception& reception);
  RetryLoop LoopOf(const std::function<void(const Retry&)>& on_retry);
  // `deadline` is on the monotonic clock.
  void Prepare(grpc::ClientContext& context, absl::Time deadline) const;
  static grpc::Status AddChunk(const v1::ImageChunk& chunk, const GenerateCallbacks& callbacks,
                               Reception& reception);
  // Cancels a resumable request, whose work would go on for a minute. Takes at most a second.
  void CancelOnServer(const v1::GenerateRequest& request);
  void CancelVideoOnServer(const std::string& request_id);
  // Nothing where the server does not answer now. Asks it where the request alone does not say it.
  std::optional<std::string> FindBucket(const v1::GenerateRequest& request, absl::Time deadline)
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<const v1::GetCapabilitiesResponse> KnownCapabilities()
      ABSL_LOCKS_EXCLUDED(mutex_);
  grpc::Status AskCapabilities(v1::GetCapabilitiesResponse& capabilities, absl::Time deadline);
  void ForgetBuckets() ABSL_LOCKS_EXCLUDED(mutex_);

  const RetryPolicy retries_;
  const std::string api_key_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::ImageGeneration::Stub> images_;
  std::unique_ptr<v1::VideoGeneration::Stub> videos_;
  std::unique_ptr<grpc::health::v1::Health::Stub> health_;
  Cancellation cancellation_;

  absl::Mutex mutex_;
  // Null: not known.
  std::shared_ptr<const v1::GetCapabilitiesResponse> capabilities_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::client
