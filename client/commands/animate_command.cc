// latent animate
#include <unistd.h>

#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/commands/animate_options.h"
#include "client/commands/command_options.h"
#include "client/commands/commands.h"
#include "client/commands/interrupt.h"
#include "client/output/json_output.h"
#include "client/output/progress_display.h"
#include "client/rpc/latent_client.h"
#include "client/rpc/video_parts.h"
#include "client/words/option_words.h"
#include "core/base/errors/status_macros.h"
#include "core/base/process/stop_signals.h"

namespace latentd::client {
namespace {

constexpr char kAnimateCommand[] = "latent animate";

constexpr char kAnimateIntroduction[] =
    R"(latent animate IMAGE [options] asks a latentd for a video that begins with IMAGE.

  latent animate photo.jpg                             latent-SEED.webp, which browsers show
  latent animate photo.jpg --output clip.avi --motion-bucket-id 200 --fps 12
  latent animate photo.jpg --output clip-%03d.png      its frames; or into a folder
  latent animate photo.jpg --width 576 --height 1024 -s 7 --decode-chunk-size 7
  latent animate photo.jpg --output - --format y4m | ffmpeg -i - clip.mp4

Options are diffusers' parameters with dashes. Files are named on standard output as they are written.
)";

DisplayStyle StyleOfAnimation(const AnimateOptions& options) {
  if (options.quiet) return DisplayStyle::kNone;
  return isatty(STDERR_FILENO) ? DisplayStyle::kBar : DisplayStyle::kLines;
}

// The same event of a picture, for the display.
v1::GenerateEvent ShownOf(const v1::VideoEvent& event) {
  v1::GenerateEvent shown;
  if (event.has_queued()) *shown.mutable_queued() = event.queued();
  if (event.has_started()) shown.mutable_started();
  if (event.has_progress()) {
    v1::Progress& progress = *shown.mutable_progress();
    progress.set_image_index(event.progress().video_index());
    progress.set_stage(event.progress().stage());
    progress.set_step(event.progress().step());
    progress.set_total_steps(event.progress().total_steps());
    progress.set_model(event.progress().model());
  }
  return shown;
}

// One request from its events to its files. Signals are blocked.
class Animation {
 public:
  Animation(const AnimateOptions& options, const AnimateFiles& files)
      : options_(options),
        files_(files),
        client_(options.connection.server, options.retries, options.connection.tls,
                options.connection.api_key),
        interrupt_([this] { client_.Cancel(); }),
        display_(std::cerr, StyleOfAnimation(options), VideosOf(options.request),
                 &TerminalColumns) {}

  ExitCode Run() {
    const grpc::Status status =
        client_.GenerateVideo(options_.request,
                              {.on_event = [this](const v1::VideoEvent& event) { OnEvent(event); },
                               .on_frame = [this](const VideoFrame& frame) { OnFrame(frame); },
                               .on_part = [this](const v1::VideoChunk& part) { OnPart(part); },
                               .on_retry = [this](const Retry& retry) { OnRetry(retry); }},
                              Timeout());
    display_.Clear();
    if (interrupt_.happened()) {
      std::cerr << "latent: cancelled\n";
      return ExitCode::kInterrupted;
    }
    if (!file_error_.ok()) {
      std::cerr << "latent: " << file_error_.message() << '\n';
      return ExitCode::kFailed;
    }
    return status.ok() ? ExitCode::kOk : CallFailed(status, options_.connection, connected_);
  }

 private:
  std::optional<std::chrono::milliseconds> Timeout() const {
    if (options_.timeout == absl::InfiniteDuration()) return std::nullopt;
    return absl::ToChronoMilliseconds(options_.timeout);
  }

  void OnEvent(const v1::VideoEvent& event) {
    connected_ = true;
    // Once: a stream that is taken up again begins with the same event, and its files are there.
    if (event.has_started() && files_.frames && !std::exchange(prepared_, true)) {
      Check(files_.frames->Prepare(event.started().executed_size().num_frames(),
                                   options_.request.has_previews()));
    }
    if (event.has_preview()) return OnPreview(event.preview());
    if (!event.has_completed()) return display_.Show(ShownOf(event));
    display_.Clear();
    const v1::VideoCompleted& completed = event.completed();
    if (options_.json) std::cout << JsonLine(completed) << std::endl;
    for (const std::string& warning : completed.warnings()) {
      std::cerr << "warning: " << WithOptionNames(warning) << '\n';
    }
    if (options_.quiet) return;
    const auto& total = completed.timings().total();
    std::cerr << absl::StrFormat("%.1f s\n",
                                 static_cast<double>(total.seconds()) + total.nanos() / 1e9);
  }

  void OnPreview(const v1::VideoPreview& preview) {
    const absl::StatusOr<std::string> name =
        files_.frames ? files_.frames->WritePreview(preview) : files_.videos->WritePreview(preview);
    Check(name.status());
    const bool first = previewed_.insert(preview.video_index()).second;
    if (!name.ok() || !first || options_.quiet) return;
    display_.Clear();
    std::cerr << "previews: " << *name << std::endl;
  }

  void OnFrame(const VideoFrame& frame) {
    if (!files_.frames) return;
    const absl::StatusOr<std::string> name =
        files_.frames->Write(frame.video, frame.frame, frame.image.data());
    Check(name.status());
    if (!name.ok()) return;
    Tell(*name, frame.video, absl::StrFormat("\"frame\":%d,", frame.frame), frame.image.seed());
  }

  void OnPart(const v1::VideoChunk& part) {
    if (!file_error_.ok() || !files_.videos) return;
    const absl::Status written = WritePart(part);
    Check(written);
    if (!written.ok() || !VideoParts::Ends(part) || options_.output == "-") return;
    Tell(files_.videos->Name(part.video_index()), part.video_index(), "", part.seed());
  }

  absl::Status WritePart(const v1::VideoChunk& part) {
    std::unique_ptr<PartFile>& file = open_[part.video_index()];
    if (file == nullptr) {
      const std::string name =
          options_.output == "-" ? "-" : files_.videos->Name(part.video_index());
      ASSIGN_OR_RETURN(
          file, PartFile::Open(name, options_.force ? Overwrite::kReplace : Overwrite::kNever));
    }
    RETURN_IF_ERROR(file->Write(part.data()));
    if (!VideoParts::Ends(part)) return absl::OkStatus();
    RETURN_IF_ERROR(file->Finish());
    open_.erase(part.video_index());
    return absl::OkStatus();
  }

  // Says that a file is there; `frame`: of JSON.
  void Tell(const std::string& name, int video, const std::string& frame, uint64_t seed) {
    display_.Clear();
    if (!options_.json) {
      std::cout << name << std::endl;
      return;
    }
    std::cout << absl::StrFormat("{\"file\":%s,\"video\":%d,%s\"seed\":\"%d\"}", JsonString(name),
                                 video, frame, seed)
              << std::endl;
  }

  void OnRetry(const Retry& retry) {
    if (options_.quiet) return;
    display_.Clear();
    std::cerr << absl::StrFormat("latent: %s; trying again in %.1f s (%d of %d)\n",
                                 WithOptionNames(retry.status.error_message()),
                                 absl::ToDoubleSeconds(retry.pause), retry.number,
                                 options_.retries.retries);
  }

  void Check(const absl::Status& written) {
    if (written.ok() || !file_error_.ok()) return;
    file_error_ = written;
    client_.Cancel();
  }

  const AnimateOptions& options_;
  const AnimateFiles& files_;
  Client client_;
  Interrupt interrupt_;
  ProgressDisplay display_;
  std::map<int, std::unique_ptr<PartFile>> open_;  // by video
  std::set<int> previewed_;                        // videos
  absl::Status file_error_;
  bool connected_ = false;  // the server has answered something
  bool prepared_ = false;   // the files of frames
};

ExitCode Animate(AnimateOptions& options) {
  const absl::StatusOr<AnimateFiles> files = PlanFiles(options);
  if (!files.ok()) return UsageError(files.status(), kAnimateCommand);
  BlockStopSignals();
  return Animation(options, *files).Run();
}

}  // namespace

CommandShape AnimateShape() {
  AnimateOptions options;
  return {"animate", "draw a video of an image", WithoutTargets(AnimateOptionGroups(options))};
}

ExitCode RunAnimate(const std::vector<std::string>& arguments) {
  AnimateOptions options;
  const std::vector<OptionGroup> groups = AnimateOptionGroups(options);
  const auto words = ParseCommand(groups, arguments, options.connection);
  if (options.connection.help) {
    std::cout << kAnimateIntroduction << DescribeOptions(groups);
    return ExitCode::kOk;
  }
  absl::Status right = words.status();
  if (right.ok()) right = TakeImage(*words, options);
  if (!right.ok()) return UsageError(right, kAnimateCommand);
  return Animate(options);
}

}  // namespace latentd::client
