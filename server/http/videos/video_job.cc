#include "server/http/videos/video_job.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/errors/error_details.h"
#include "server/generation/conversion/video_conversion.h"
#include "server/http/exchange/http_status.h"

namespace latentd::server::http {
namespace {

namespace v1 = ::latent::v1;

// Percent of a video's work that are its steps; decoding and the file are the rest.
constexpr int kStepsPercent = 95;

// Not to be guessed.
std::string MakeVideoId() {
  std::random_device random;
  return absl::StrFormat("video_%08x%08x%08x%08x", random(), random(), random(), random());
}

absl::Status FileTooLarge(int64_t most) {
  return WithReason(
      absl::ResourceExhaustedError(absl::StrCat(
          "the video's file has over ", most,
          " bytes, which is more than this server keeps for a client to fetch: ask for another "
          "output_format, or for the stream of gRPC")),
      "FILE_TOO_LARGE");
}

class VideoBody final : public generation::ReceivedRequest {
 public:
  VideoBody(Request http, const std::vector<ServedModel>& models, VideoForm& form)
      : http_(std::move(http)), models_(models), form_(form) {}

  int64_t size() const override { return static_cast<int64_t>(http_.body.size()); }
  absl::Status Parse(generation::ParsedRequest& parsed) override {
    v1::GenerateVideoRequest& video = parsed.video.emplace();
    const absl::Status read = ReadVideoRequest(http_, models_, video, form_);
    parsed.request.set_request_id(video.request_id());
    return read;
  }
  void Drop() override { http_.body = std::string(); }

 private:
  Request http_;
  const std::vector<ServedModel>& models_;
  VideoForm& form_;
};

}  // namespace

VideoJob::VideoJob(generation::CallEnvironment environment, generation::Client client,
                   std::vector<ServedModel> models, int64_t most_bytes)
    : Generation(environment, std::move(client), "openai.videos", generation::Results::kVideos),
      id_(MakeVideoId()),
      created_(environment.clock.Wall()),
      models_(std::move(models)),
      most_bytes_(most_bytes) {}

absl::Status VideoJob::Start(Request http) {
  VideoBody body(std::move(http), models_, form_);
  const absl::Status submitted = Submit(body);
  {
    absl::MutexLock lock(&mutex_);
    submitted_ = true;
    if (!submitted.ok()) Finish(submitted);
  }
  if (submitted.ok()) {
    AdvanceAfter([] {});
  } else {
    NoteHttpStatus(StatusOf(submitted).code);
    Done(submitted);
  }
  return submitted;
}

void VideoJob::Advance() {
  bool fits = true;
  std::optional<absl::Status> end;
  {
    absl::MutexLock lock(&mutex_);
    if (!submitted_ || use_.is_over) return;
    fits = TakeEvents();
    if (fits) end = outbox_->end();
    if (end) Finish(*end);
  }
  if (!fits) return Fail(FileTooLarge(most_bytes_));
  if (!end) return;
  NoteHttpStatus(200);
  Done(*end);
}

bool VideoJob::TakeEvents() {
  while (const auto event = NextEvent()) {
    Note(generation::ToVideoEvent(*event));
    if (use_.bytes + static_cast<int64_t>(event->data.size()) > most_bytes_) return false;
    file_.append(event->data.data(), event->data.size());
    use_.bytes = static_cast<int64_t>(file_.size());
  }
  return true;
}

void VideoJob::Note(const v1::VideoEvent& event) {
  if (event.has_queued()) state_.position = event.queued().position();
  if (event.has_started()) state_.status = Status::kInProgress;
  if (event.has_video_chunk()) state_.mime_type = event.video_chunk().mime_type();
  if (event.has_completed()) state_.completed = event.completed();
  if (!event.has_progress() || event.progress().total_steps() == 0) return;
  state_.step = event.progress().step();
  state_.total_steps = event.progress().total_steps();
  state_.progress =
      std::max(state_.progress, kStepsPercent * state_.step / std::max(state_.total_steps, 1));
}

// Nothing is marked before the last that asks for memory is made: without it the job fails later.
void VideoJob::Finish(const absl::Status& end) {
  if (end.ok()) {
    state_.file = std::make_shared<const std::string>(std::exchange(file_, std::string()));
    state_.progress = 100;
    state_.status = Status::kCompleted;
  } else {
    file_ = std::string();
    use_.bytes = 0;
    state_.error = end;
    state_.status = Status::kFailed;
  }
  state_.ended = environment_.clock.Wall();
  use_.ended = environment_.clock.Monotonic();
  use_.is_over = true;
}

VideoJob::State VideoJob::state() const {
  absl::MutexLock lock(&mutex_);
  return state_;
}

VideoJob::Use VideoJob::use() const {
  absl::MutexLock lock(&mutex_);
  return use_;
}

void VideoJob::Delete() {
  Fail(WithReason(absl::CancelledError("the video was deleted"), "VIDEO_DELETED"));
}

void VideoJob::LeaveIfAborted() {
  if (aborted_) Fail(absl::CancelledError("the server has ended the video's work"));
}

}  // namespace latentd::server::http
