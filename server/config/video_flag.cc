#include "server/config/video_flag.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/errors/status_macros.h"
#include "server/config/flag_values.h"

namespace latentd::server::config {
namespace {

using pipeline::kMostFramesOfVideo;
using pipeline::ModelSource;

constexpr absl::string_view kVideoFlag = "video";
constexpr absl::string_view kVideoKeys[] = {"buckets", "components-from", "decode-chunk"};

// A comma that no key follows belongs to the path.
std::vector<std::string> VideoPartsOf(absl::string_view text) {
  std::vector<std::string> parts;
  for (const absl::string_view piece : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> split =
        absl::StrSplit(piece, absl::MaxSplits('=', 1));
    const bool is_setting = piece.find('=') != absl::string_view::npos &&
                            absl::c_linear_search(kVideoKeys, split.first);
    if (parts.empty() || is_setting) {
      parts.emplace_back(piece);
    } else {
      absl::StrAppend(&parts.back(), ",", piece);
    }
  }
  return parts;
}

bool ReadFrames(absl::string_view text, int& frames) {
  return absl::SimpleAtoi(text, &frames) && frames >= 1 && frames <= kMostFramesOfVideo;
}

// "1024x576x25": the sides as --buckets has them.
absl::StatusOr<pipeline::Size> ToVideoSize(absl::string_view text) {
  const size_t at = text.rfind('x');
  int frames = 0;
  if (at != absl::string_view::npos && ReadFrames(text.substr(at + 1), frames)) {
    const auto sides = ToSizes(kVideoFlag, text.substr(0, at));
    if (sides.ok() && sides->size() == 1) {
      return pipeline::Size{sides->front().width, sides->front().height, frames};
    }
  }
  return WrongValue(
      kVideoFlag, text,
      absl::StrCat("with buckets of width, height and 1 to ", kMostFramesOfVideo,
                   " frames, and + between them, such as 1024x576x25; each side is a multiple of 8 "
                   "from ",
                   pipeline::kMinSide, " to ", pipeline::kMaxSide));
}

absl::Status SetVideo(const std::string& text, absl::string_view key, absl::string_view value,
                      ModelSource& model) {
  if (key == "components-from") {
    model.parts.components_from = std::string(value);
    return value.empty() ? WrongValue(kVideoFlag, text, "with a value for components-from")
                         : absl::OkStatus();
  }
  if (key == "decode-chunk") {
    if (ReadFrames(value, model.decode_chunk)) return absl::OkStatus();
    return WrongValue(kVideoFlag, text,
                      absl::StrCat("with decode-chunk=1 to ", kMostFramesOfVideo));
  }
  for (const absl::string_view size : absl::StrSplit(value, '+')) {
    ASSIGN_OR_RETURN(const pipeline::Size bucket, ToVideoSize(size));
    if (absl::c_linear_search(model.buckets, bucket)) {
      return WrongValue(kVideoFlag, text, "with each bucket once");
    }
    model.buckets.push_back(bucket);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelSource> ToVideoModel(const std::string& text) {
  const std::vector<std::string> parts = VideoPartsOf(text);
  ModelSource model{
      .name = std::string(kVideoFlag), .checkpoint = parts.front(), .draws_videos = true};
  if (model.checkpoint.empty()) {
    return WrongValue(kVideoFlag, text,
                      "a folder of Stable Video Diffusion in the diffusers layout, or its single "
                      "file; behind it may stand ,buckets=1024x576x25+576x1024x25, ,decode-chunk=7 "
                      "and ,components-from=PATH");
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t at = parts[i].find('=');
    const absl::string_view part = parts[i];
    RETURN_IF_ERROR(SetVideo(text, part.substr(0, at), part.substr(at + 1), model));
  }
  if (model.buckets.size() <= kMaxBuckets) return model;
  return WrongValue(kVideoFlag, text, absl::StrCat("with at most ", kMaxBuckets, " buckets"));
}

}  // namespace latentd::server::config
