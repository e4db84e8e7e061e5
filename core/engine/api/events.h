// Events of a request, and who receives them. Plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/engine/api/video_file.h"
#include "core/image/format.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::engine {

// A kind of work, whichever model does it.
enum class Stage : uint8_t {
  kText,
  kImage,  // the init image, by the VAE
  kSteps,
  kDecode,
  kEncodeFile,
  kPreview  // by a tiny VAE; of no Progress
};

// The stage's name in metrics and traces.
inline const char* NameOf(Stage stage) {
  switch (stage) {
    case Stage::kText:
      return "text";
    case Stage::kImage:
      return "image";
    case Stage::kSteps:
      return "steps";
    case Stage::kDecode:
      return "decode";
    case Stage::kEncodeFile:
      return "encode_file";
    case Stage::kPreview:
      return "preview";
  }
  return "";
}

// Events of one request, in this order: Queued+, Started, Progress*, Image+, then Completed or
// Failed, which is the last. Queued comes again when what it says has changed. A Preview comes
// between Started and the Image of its picture, and after the Progress of its step.
struct Queued {
  std::string request_id;
  int position = 0;  // pictures before this one
  // Forecasts; zero where no durations have been measured yet.
  absl::Duration wait;   // until it begins
  absl::Duration total;  // until all of its pictures are drawn
};

struct Started {
  pipeline::Size executed_size;
};

// From when to when, of the clock's monotonic time.
struct Period {
  absl::Duration length() const { return end - begin; }

  absl::Time begin, end;
};

struct Progress {
  int image_index = 0;
  Stage stage = Stage::kText;
  int step = 0;  // 1-based, of total_steps of the whole picture, all models together
  int total_steps = 0;
  std::string model;  // whose work it is, by its name
  // When the device was at it. Nothing: there was no work left, since another picture of the
  // request had it done.
  std::optional<Period> worked = {};
  bool is_split = false;    // another device evaluated a row of the step
  std::string device = {};  // the one that was at it, where there are several: "1"
};

// Small image of an unfinished picture, or small video of an unfinished one. Only where
// PictureSpec::previews_every asks for it, and not for each of those steps: one that is late gives
// way to the next.
struct Preview {
  int image_index = 0;
  int step = 0;  // as in Progress
  int total_steps = 0;
  pipeline::Size size;
  image::Format format = image::Format::kJpeg;
  std::string bytes;
  std::shared_ptr<const void> unread = nullptr;  // as Image's
  // Format of a video, in place of `format`: the file has size.frames.
  std::optional<image::VideoFormat> video_format = {};
};

// Part of the file of a whole video: those of one file come in order and without gaps.
struct VideoPart {
  image::VideoFormat format = image::VideoFormat::kWebp;
  int video_frames = 0;  // frames of the whole video
  int64_t offset = 0;    // place of its bytes in the file
  int frames = 0;        // frames that have been added since the part before it
  bool is_last = false;
};

// Frames of a video come as one each: in chunks, as these are decoded, and there in any order. Or
// its file comes as one for each of its parts, as these are final.
struct Image {
  // Pictures that it tells of.
  int count() const { return part ? part->frames : 1; }

  int index = 0;  // index of the picture, or the video
  uint64_t seed = 0;
  pipeline::Size size;
  image::Format format = image::Format::kPng;
  std::string bytes;
  Period encoded = {};  // when it became a file
  // As long as it is kept, `bytes` count as unread (Engine::WaitsForReaders). Null in tests.
  std::shared_ptr<const void> unread = nullptr;
  int frame = 0;                       // index in the video
  std::optional<VideoPart> part = {};  // nothing: an image, or a frame
};

// How long that stage took with that model, by its name.
struct StageTime {
  Stage stage = Stage::kText;
  std::string model;
  absl::Duration time;
};

struct Timings {
  void Add(Stage stage, const std::string& model, absl::Duration time);

  absl::Duration queue, total;
  std::vector<StageTime> stages;  // each once, in the order in which they were first added to
};

struct Completed {
  Timings timings;
  // The spec with every default filled in: what was really used.
  pipeline::PictureSpec effective;
  pipeline::Size executed_size;  // the bucket
  int prompt_tokens = 0;         // tokens of the longest prompt
  int prompt_chunks = 1;         // chunks of 75 tokens that are read of it
  int dropped_tokens = 0;        // tokens of one that no text encoder reads, at most
  std::vector<std::string> warnings;
  std::optional<VideoFile> video_file = std::nullopt;  // as GenerateSpec's
  // With guidance_stop: for each picture after how many of its steps guidance stopped (0: it did
  // not), and the rows that evaluations had less for it, of all pictures.
  std::vector<int> guidance_stopped_after = {};
  int skipped_rows = 0;
  // Evaluations of its pictures that computed a part of the UNet alone.
  int shallow_evaluations = 0;
};

// CANCELLED after Cancel, DEADLINE_EXCEEDED where the deadline has passed by then or passes before
// the end, INTERNAL, RESOURCE_EXHAUSTED, UNAVAILABLE, ...; details in the status
// (base/error_details.h).
struct Failed {
  absl::Status status;
};

using Event = std::variant<Queued, Started, Progress, Preview, Image, Completed, Failed>;

// Receives the events of one request, one at a time, from threads of the engine. Must not block,
// nor throw: what cannot be sent yet is kept or dropped by the sink.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void OnEvent(Event event) = 0;
};

}  // namespace latentd::engine
