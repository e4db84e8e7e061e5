#include "server/generation/conversion/video_output.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/image/video/video_format.h"
#include "core/pipeline/spec/request/limits.h"
#include "server/generation/conversion/request_form.h"

namespace latentd::server::generation {
namespace {

namespace v1 = ::latent::v1;
using image::VideoFormat;

constexpr v1::VideoFormat ProtoOf(VideoFormat format) {
  return static_cast<v1::VideoFormat>(static_cast<int>(format) + 1);
}
static_assert(ProtoOf(VideoFormat::kWebp) == v1::VIDEO_FORMAT_WEBP);
static_assert(ProtoOf(VideoFormat::kApng) == v1::VIDEO_FORMAT_APNG);
static_assert(ProtoOf(VideoFormat::kAvi) == v1::VIDEO_FORMAT_AVI);
static_assert(ProtoOf(VideoFormat::kY4m) == v1::VIDEO_FORMAT_Y4M);
static_assert(ProtoOf(VideoFormat::kRaw) == v1::VIDEO_FORMAT_RAW);
static_assert(ProtoOf(VideoFormat::kWebm) == v1::VIDEO_FORMAT_WEBM);

// Nothing: files of frames, or a value that there is not.
const image::VideoFileType* FileTypeOf(v1::VideoFormat format) {
  for (const image::VideoFileType& type : image::VideoFileTypes()) {
    if (ProtoOf(type.format) == format) return &type;
  }
  return nullptr;
}

void CheckFrameOutput(const v1::VideoOutput& asked, std::vector<FieldViolation>& violations) {
  v1::Output output;
  output.set_format(asked.format());
  if (asked.has_quality()) output.set_quality(asked.quality());
  CheckOutput(output, violations);
  const char* of_a_file = "is of the file of a video: set output.file";
  if (asked.has_playback_fps()) violations.push_back({"output.playback_fps", of_a_file});
  if (asked.has_embed_parameters()) violations.push_back({"output.embed_parameters", of_a_file});
}

void CheckPlayback(const v1::VideoOutput& output, std::vector<FieldViolation>& violations) {
  const double fps = output.playback_fps();
  if (output.file() == v1::VIDEO_FORMAT_RAW) {
    violations.push_back({"output.playback_fps", "does not apply to VIDEO_FORMAT_RAW"});
  } else if (fps < 1 || fps > pipeline::kMostFps) {
    violations.push_back({"output.playback_fps",
                          absl::StrCat("is ", fps, "; supported: from 1 to ", pipeline::kMostFps)});
  }
}

}  // namespace

void CheckVideoOutput(const v1::VideoOutput& output, std::vector<FieldViolation>& violations) {
  const image::VideoFileType* type = FileTypeOf(output.file());
  if (type == nullptr) return CheckFrameOutput(output, violations);
  if (output.format() != v1::FORMAT_UNSPECIFIED) {
    violations.push_back(
        {"output.format", "is of files of frames: unset it, or output.file, a whole video's"});
  }
  if (output.has_quality() && !type->has_quality) {
    violations.push_back(
        {"output.quality",
         "applies to VIDEO_FORMAT_WEBP, VIDEO_FORMAT_AVI and VIDEO_FORMAT_WEBM only"});
  }
  if (output.has_playback_fps()) CheckPlayback(output, violations);
  if (output.embed_parameters() && !type->holds_text) {
    violations.push_back({"output.embed_parameters",
                          "applies to VIDEO_FORMAT_WEBP, VIDEO_FORMAT_APNG, VIDEO_FORMAT_AVI and "
                          "VIDEO_FORMAT_WEBM only"});
  }
}

std::optional<engine::VideoFile> ToVideoFile(const v1::VideoOutput& output) {
  const image::VideoFileType* type = FileTypeOf(output.file());
  if (type == nullptr) return std::nullopt;
  engine::VideoFile file = {.format = type->format};
  if (output.has_quality()) file.quality = output.quality();
  if (output.has_playback_fps()) file.playback_fps = output.playback_fps();
  if (output.has_embed_parameters()) file.embed_parameters = output.embed_parameters();
  return file;
}

v1::VideoOutput ToVideoOutput(const engine::VideoFile& file) {
  const image::VideoFileType& type = image::TypeOf(file.format);
  v1::VideoOutput proto;
  proto.set_file(ProtoOf(file.format));
  if (type.has_quality) proto.set_quality(file.quality);
  if (file.playback_fps) proto.set_playback_fps(*file.playback_fps);
  if (type.holds_text) proto.set_embed_parameters(file.embed_parameters);
  return proto;
}

v1::VideoChunk ToVideoChunk(const engine::Image& image, int64_t offset) {
  const engine::VideoPart& part = *image.part;
  v1::VideoChunk proto;
  proto.set_video_index(image.index);
  proto.set_seed(image.seed);
  proto.mutable_size()->set_width(image.size.width);
  proto.mutable_size()->set_height(image.size.height);
  proto.mutable_size()->set_num_frames(part.video_frames);
  const absl::string_view mime_type = image::TypeOf(part.format).mime_type;
  proto.set_mime_type(mime_type.data(), mime_type.size());
  proto.set_offset(part.offset + offset);
  if (!part.is_last) return proto;
  proto.set_total_bytes(part.offset + static_cast<int64_t>(image.bytes.size()));
  return proto;
}

void AddFormats(v1::GetVideoCapabilitiesResponse& proto) {
  for (const v1::Format format :
       {v1::FORMAT_PNG, v1::FORMAT_JPEG, v1::FORMAT_WEBP, v1::FORMAT_RAW_RGB8}) {
    proto.add_frame_formats(format);
  }
  for (const image::VideoFileType& type : image::VideoFileTypes()) {
    if (type.is_built_in) proto.add_video_formats(ProtoOf(type.format));
  }
}

}  // namespace latentd::server::generation
