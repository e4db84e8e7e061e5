#include "client/rpc/latent_client.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/rpc/answers.h"
#include "client/rpc/bucket_choice.h"
#include "client/rpc/channel.h"
#include "client/rpc/error_details.h"
#include "client/rpc/image_assembler.h"
#include "core/base/clock.h"

namespace latentd::client {
namespace {

constexpr absl::Duration kShortCall = absl::Seconds(10);
constexpr absl::Duration kCancelCall = absl::Seconds(1);
constexpr char kBucketHeader[] = "x-latent-bucket";

// `deadline` is on the monotonic clock, gRPC's on the system's.
void SetDeadline(grpc::ClientContext& context, absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) return;
  const absl::Duration left = deadline - SystemClock().Monotonic();
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMicroseconds(std::max(left, absl::ZeroDuration())));
}

absl::Time DeadlineOf(std::optional<std::chrono::milliseconds> timeout) {
  return timeout ? SystemClock().Monotonic() + absl::FromChrono(*timeout) : absl::InfiniteFuture();
}

absl::Time ShortDeadline() { return SystemClock().Monotonic() + kShortCall; }

double Random() {
  thread_local std::minstd_rand engine{std::random_device()()};
  return std::uniform_real_distribution<double>(0, 1)(engine);
}

// So many digits that people can type them.
uint64_t RandomSeed() { return std::random_device()(); }

std::string RandomId() {
  std::random_device random;
  return absl::StrFormat("%08x%08x%08x", random(), random(), random());
}

// Frames of several videos, put together as images of different numbers.
constexpr int kMostFrames = 1 << 16;

v1::ImageChunk ImageChunkOf(v1::FrameChunk& frame) {
  v1::ImageChunk chunk;
  chunk.set_index(frame.video_index() * kMostFrames + frame.frame());
  chunk.set_seed(frame.seed());
  *chunk.mutable_size() = frame.size();
  chunk.set_mime_type(frame.mime_type());
  chunk.set_offset(frame.offset());
  chunk.set_total_bytes(frame.total_bytes());
  chunk.set_data(std::move(*frame.mutable_data()));
  return chunk;
}

VideoFrame FrameOf(v1::Image image) {
  const int index = image.index();
  image.clear_index();
  return {index / kMostFrames, index % kMostFrames, std::move(image)};
}

v1::ResumeStreamRequest RestOf(const v1::GenerateRequest& request, int images,
                               const ImageAssembler& assembler) {
  v1::ResumeStreamRequest rest;
  rest.set_request_id(request.request_id());
  rest.set_received_images(images);
  rest.set_received_bytes(assembler.held_bytes());
  return rest;
}

// True if the server may go on with a resumable request that has ended here. An error with a reason
// ends this call's work on the server. Before its first event, work of that name may be another
// call's, unless the name was made here.
bool MayRun(const grpc::Status& status, bool has_begun, bool has_own_name) {
  const bool is_cancelled = status.error_code() == grpc::StatusCode::CANCELLED;
  const bool may_run = has_begun || (is_cancelled && has_own_name);
  return !status.ok() && ErrorReason(status).empty() && may_run;
}

// True if the server's answer shows that the known buckets are outdated.
bool SaysOtherBuckets(const grpc::Status& status) {
  const std::string reason = ErrorReason(status);
  if (reason == "BUCKET_COLD" || reason == "COMPILE_FORBIDDEN") return true;
  const auto bad = BadFields(status);
  return bad && std::any_of(bad->field_violations().begin(), bad->field_violations().end(),
                            [](const auto& violation) {
                              return violation.field() == "width" || violation.field() == "height";
                            });
}

}  // namespace

Client::Client(const std::string& server, const RetryPolicy& retries, const std::optional<Tls>& tls,
               std::string api_key)
    : retries_(retries),
      api_key_(std::move(api_key)),
      channel_(Connect(server, tls)),
      images_(v1::ImageGeneration::NewStub(channel_)),
      videos_(v1::VideoGeneration::NewStub(channel_)),
      health_(grpc::health::v1::Health::NewStub(channel_)) {}

grpc::Status Client::Generate(const v1::GenerateRequest& request,
                              const GenerateCallbacks& callbacks,
                              std::optional<std::chrono::milliseconds> timeout) {
  v1::GenerateRequest seeded = request;
  if (!seeded.has_seed() && seeded.seeds().empty()) seeded.set_seed(RandomSeed());
  if (seeded.resumable() && seeded.request_id().empty()) seeded.set_request_id(RandomId());
  const absl::Time deadline = DeadlineOf(timeout);
  const RetryLoop loop = LoopOf(callbacks.on_retry);
  Reception reception;
  const grpc::Status status =
      loop.Run(deadline, [&] { return TryGenerate(seeded, callbacks, deadline, reception); });
  const bool is_left = MayRun(status, reception.has_begun, request.request_id().empty());
  if (seeded.resumable() && is_left) CancelOnServer(seeded);
  return status;
}

RetryLoop Client::LoopOf(const std::function<void(const Retry&)>& on_retry) {
  return {.policy = retries_,
          .clock = SystemClock(),
          .random = &Random,
          .wait = [this](absl::Duration pause) { return cancellation_.WaitFor(pause); },
          .on_retry = on_retry};
}

grpc::Status Client::GenerateVideo(const v1::GenerateVideoRequest& request,
                                   const VideoCallbacks& callbacks,
                                   std::optional<std::chrono::milliseconds> timeout) {
  v1::GenerateVideoRequest seeded = request;
  if (!seeded.has_seed() && seeded.seeds().empty()) seeded.set_seed(RandomSeed());
  if (seeded.resumable() && seeded.request_id().empty()) seeded.set_request_id(RandomId());
  const absl::Time deadline = DeadlineOf(timeout);
  const RetryLoop loop = LoopOf(callbacks.on_retry);
  VideoReception reception;
  const grpc::Status status =
      loop.Run(deadline, [&] { return TryVideo(seeded, callbacks, deadline, reception); });
  const bool is_left = MayRun(status, reception.has_begun, request.request_id().empty());
  if (seeded.resumable() && is_left) CancelVideoOnServer(seeded.request_id());
  return status;
}

Attempt Client::TryVideo(const v1::GenerateVideoRequest& request, const VideoCallbacks& callbacks,
                         absl::Time deadline, VideoReception& reception) {
  const auto has_part = [&] { return reception.has_frame || !reception.parts.empty(); };
  ++reception.tries;
  grpc::Status status = CallVideoOnce(request, callbacks, deadline, reception);
  // As in TryGenerate.
  const std::string reason = ErrorReason(status);
  const bool is_gone = reason == "NO_SUCH_STREAM" && !has_part();
  const bool is_there = reason == "STREAM_EXISTS" && reception.tries > 1;
  if (is_gone || is_there) {
    reception.is_resumed = is_there;
    status = CallVideoOnce(request, callbacks, deadline, reception);
  }
  reception.is_resumed = request.resumable() && reception.has_begun && ErrorReason(status).empty();
  return {status, has_part() && !reception.is_resumed};
}

grpc::Status Client::CallVideoOnce(const v1::GenerateVideoRequest& request,
                                   const VideoCallbacks& callbacks, absl::Time deadline,
                                   VideoReception& reception) {
  grpc::ClientContext context;
  Prepare(context, deadline);
  const Cancellation::Scope scope(cancellation_, context);
  if (!reception.is_resumed) reception = {.tries = reception.tries};
  v1::ResumeVideoRequest rest;
  rest.set_request_id(request.request_id());
  rest.set_received_bytes(reception.bytes);
  const auto reader = reception.is_resumed ? videos_->ResumeVideo(&context, rest)
                                           : videos_->GenerateVideo(&context, request);
  grpc::Status added;
  const grpc::Status status = ReadStream(context, *reader, [&](v1::VideoEvent& event) {
    reception.has_begun = true;
    added = AddToVideo(event, callbacks, reception);
    return added.ok();
  });
  if (added.ok() && status.ok()) added = reception.parts.CheckComplete();
  return added.ok() ? status : added;
}

grpc::Status Client::AddToVideo(v1::VideoEvent& event, const VideoCallbacks& callbacks,
                                VideoReception& reception) {
  if (event.has_video_chunk()) {
    const v1::VideoChunk& part = event.video_chunk();
    reception.bytes += static_cast<int64_t>(part.data().size());
    const grpc::Status added = reception.parts.Add(part);
    if (added.ok() && callbacks.on_part) callbacks.on_part(part);
    return added;
  }
  if (!event.has_frame_chunk()) {
    if (callbacks.on_event) callbacks.on_event(event);
    return grpc::Status::OK;
  }
  reception.bytes += static_cast<int64_t>(event.frame_chunk().data().size());
  const grpc::Status added = reception.assembler.Add(ImageChunkOf(*event.mutable_frame_chunk()));
  if (!added.ok() || !reception.assembler.complete()) return added;
  reception.has_frame = true;
  VideoFrame frame = FrameOf(reception.assembler.Take());
  if (callbacks.on_frame) callbacks.on_frame(std::move(frame));
  return added;
}

Attempt Client::TryGenerate(const v1::GenerateRequest& request, const GenerateCallbacks& callbacks,
                            absl::Time deadline, Reception& reception) {
  ++reception.tries;
  grpc::Status status = CallOnce(request, callbacks, deadline, reception);
  const std::string reason = ErrorReason(status);
  // Another server answers, or it was too late: from the beginning. Or a try got there, and not its
  // answer back.
  const bool is_gone = reason == "NO_SUCH_STREAM" && reception.images == 0;
  const bool is_there = reason == "STREAM_EXISTS" && reception.tries > 1;
  if (is_gone || is_there) {
    reception.is_resumed = is_there;
    status = CallOnce(request, callbacks, deadline, reception);
  }
  // An error with a reason has ended the stream on the server too.
  reception.is_resumed = request.resumable() && reception.has_begun && ErrorReason(status).empty();
  return {status, reception.images > 0 && !reception.is_resumed};
}

grpc::Status Client::CallOnce(const v1::GenerateRequest& request,
                              const GenerateCallbacks& callbacks, absl::Time deadline,
                              Reception& reception) {
  grpc::ClientContext context;
  Prepare(context, deadline);
  const std::optional<std::string> bucket = FindBucket(request, deadline);
  if (bucket) context.AddMetadata(kBucketHeader, *bucket);
  const Cancellation::Scope scope(cancellation_, context);
  if (!reception.is_resumed) reception = {.tries = reception.tries};
  const auto reader =
      reception.is_resumed
          ? images_->ResumeStream(&context, RestOf(request, reception.images, reception.assembler))
          : images_->GenerateStream(&context, request);
  grpc::Status added;
  const grpc::Status status = ReadStream(context, *reader, [&](const v1::GenerateEvent& event) {
    reception.has_begun = true;
    if (event.has_image_chunk()) {
      added = AddChunk(event.image_chunk(), callbacks, reception);
    } else if (callbacks.on_event) {
      callbacks.on_event(event);
    }
    return added.ok();
  });
  if (!added.ok()) return added;
  if (SaysOtherBuckets(status)) ForgetBuckets();
  return status;
}

void Client::Prepare(grpc::ClientContext& context, absl::Time deadline) const {
  SetDeadline(context, deadline);
  if (!api_key_.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", api_key_));
}

grpc::Status Client::AddChunk(const v1::ImageChunk& chunk, const GenerateCallbacks& callbacks,
                              Reception& reception) {
  const grpc::Status added = reception.assembler.Add(chunk);
  if (!added.ok() || !reception.assembler.complete()) return added;
  ++reception.images;
  if (callbacks.on_image) callbacks.on_image(reception.assembler.Take());
  return added;
}

void Client::CancelOnServer(const v1::GenerateRequest& request) {
  const absl::Time deadline = SystemClock().Monotonic() + kCancelCall;
  grpc::ClientContext context;
  Prepare(context, deadline);
  const std::optional<std::string> bucket = FindBucket(request, deadline);
  if (bucket) context.AddMetadata(kBucketHeader, *bucket);
  v1::CancelGenerationRequest cancel;
  cancel.set_request_id(request.request_id());
  v1::CancelGenerationResponse response;
  images_->CancelGeneration(&context, cancel, &response);
}

void Client::CancelVideoOnServer(const std::string& request_id) {
  grpc::ClientContext context;
  Prepare(context, SystemClock().Monotonic() + kCancelCall);
  v1::CancelGenerationRequest cancel;
  cancel.set_request_id(request_id);
  v1::CancelGenerationResponse response;
  videos_->CancelVideo(&context, cancel, &response);
}

std::optional<std::string> Client::FindBucket(const v1::GenerateRequest& request,
                                              absl::Time deadline) {
  if (!NeedsCapabilities(request)) return BucketOf(request, v1::GetCapabilitiesResponse());
  std::shared_ptr<const v1::GetCapabilitiesResponse> known = KnownCapabilities();
  if (known == nullptr) {
    auto asked = std::make_shared<v1::GetCapabilitiesResponse>();
    if (!AskCapabilities(*asked, std::min(deadline, ShortDeadline())).ok()) return std::nullopt;
    known = std::move(asked);
    absl::MutexLock lock(&mutex_);
    capabilities_ = known;
  }
  return BucketOf(request, *known);
}

std::shared_ptr<const v1::GetCapabilitiesResponse> Client::KnownCapabilities() {
  absl::MutexLock lock(&mutex_);
  return capabilities_;
}

void Client::ForgetBuckets() {
  absl::MutexLock lock(&mutex_);
  capabilities_.reset();
}

grpc::Status Client::Encode(const v1::EncodeRequest& request, absl::Duration timeout,
                            v1::EncodeResponse& response) {
  grpc::ClientContext context;
  Prepare(context, SystemClock().Monotonic() + timeout);
  const Cancellation::Scope scope(cancellation_, context);
  return ReadAnswer(response, [&] { return images_->Encode(&context, request, &response); });
}

grpc::Status Client::GetCapabilities(v1::GetCapabilitiesResponse& capabilities) {
  return AskCapabilities(capabilities, ShortDeadline());
}

grpc::Status Client::GetVideoCapabilities(v1::GetVideoCapabilitiesResponse& capabilities) {
  grpc::ClientContext context;
  Prepare(context, ShortDeadline());
  const Cancellation::Scope scope(cancellation_, context);
  return ReadAnswer(capabilities, [&] {
    return videos_->GetVideoCapabilities(&context, v1::GetVideoCapabilitiesRequest(),
                                         &capabilities);
  });
}

grpc::Status Client::AskCapabilities(v1::GetCapabilitiesResponse& capabilities,
                                     absl::Time deadline) {
  grpc::ClientContext context;
  Prepare(context, deadline);
  const Cancellation::Scope scope(cancellation_, context);
  return ReadAnswer(capabilities, [&] {
    return images_->GetCapabilities(&context, v1::GetCapabilitiesRequest(), &capabilities);
  });
}

grpc::Status Client::CheckHealth(const std::string& service,
                                 grpc::health::v1::HealthCheckResponse::ServingStatus& status) {
  grpc::ClientContext context;
  Prepare(context, ShortDeadline());
  const Cancellation::Scope scope(cancellation_, context);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  grpc::health::v1::HealthCheckResponse response;
  grpc::Status called =
      ReadAnswer(response, [&] { return health_->Check(&context, request, &response); });
  status = response.status();
  return called;
}

}  // namespace latentd::client
