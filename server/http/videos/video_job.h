// A video that was asked for over HTTP: Generation's transport without a connection. It takes what
// comes of its request at once, and keeps the file until its client fetches it.
//
// Life: Enter, Start, which submits it, and from then on it goes its way, whether a client asks for
// its state; it ends with the engine's last event, or with Delete.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "latent/v1/video_generation.pb.h"
#include "server/generation/generation.h"
#include "server/http/calls/served_models.h"
#include "server/http/exchange/exchange.h"
#include "server/http/videos/video_request.h"

namespace latentd::server::http {

// Thread-safe.
class VideoJob final : public generation::Generation {
 public:
  enum class Status { kQueued, kInProgress, kCompleted, kFailed };

  struct State {
    Status status = Status::kQueued;
    int position = 0;  // in the queue
    int step = 0, total_steps = 0;
    int progress = 0;    // percent
    absl::Status error;  // why it failed
    latent::v1::VideoCompleted completed;
    std::string mime_type;                    // once a part of the file is there
    absl::Time ended;                         // by the clock on the wall
    std::shared_ptr<const std::string> file;  // null until it is completed
  };

  // Memory that it holds.
  struct Use {
    bool is_over = false;
    absl::Time ended;   // monotonic
    int64_t bytes = 0;  // bytes of the file, as far as it is there
  };

  // `models` are those that draw videos. A file of over `most_bytes` is a failure.
  VideoJob(generation::CallEnvironment environment, generation::Client client,
           std::vector<ServedModel> models, int64_t most_bytes);

  using Generation::request_id;

  // As Generation's. Called first.
  absl::Status Enter() { return TryEnter(); }

  // Reads, checks and submits the request; blocks where it is large. An error, which its client is
  // told, ends it. Called once.
  absl::Status Start(Request http);

  const std::string& id() const { return id_; }
  absl::Time created() const { return created_; }  // by the clock on the wall
  // REQUIRES: Start has returned.
  const VideoForm& form() const { return form_; }

  State state() const ABSL_LOCKS_EXCLUDED(mutex_);
  Use use() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Its work ends, if it has not, with CANCELLED.
  void Delete();
  // Ends it as Delete where the server has cancelled it since: to be called every second or so.
  void LeaveIfAborted();

 private:
  void Abort() override { aborted_ = true; }
  void Advance() override;
  bool CanBeResumed() const override { return false; }
  int64_t MaxPictureBytes(int64_t) const override { return 0; }
  bool TakesPreviews() const override { return false; }

  // False: the file is too large.
  bool TakeEvents() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Note(const latent::v1::VideoEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(const absl::Status& end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string id_;
  const absl::Time created_;
  const std::vector<ServedModel> models_;
  const int64_t most_bytes_;
  VideoForm form_;
  std::atomic<bool> aborted_ = false;
  bool submitted_ ABSL_GUARDED_BY(mutex_) = false;
  State state_ ABSL_GUARDED_BY(mutex_);
  Use use_ ABSL_GUARDED_BY(mutex_);
  std::string file_ ABSL_GUARDED_BY(mutex_);  // as far as it is there
};

}  // namespace latentd::server::http
