#include "client/commands/animate_options.h"

#include <algorithm>
#include <filesystem>
#include <random>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/commands/command_options.h"
#include "client/options/api_key.h"
#include "client/options/files.h"
#include "client/options/picture_files.h"
#include "client/options/request_options.h"
#include "client/options/tls_options.h"
#include "client/words/option_words.h"
#include "core/base/errors/status_macros.h"

namespace latentd::client {
namespace {

// Formats of frames, those of pictures that have pixels; then those of one file that are no format
// of frames too.
const std::vector<std::string>& VideoFormats() {
  static const auto& formats =
      *new std::vector<std::string>{"png", "jpeg", "webp", "raw", "apng", "avi", "y4m", "webm"};
  return formats;
}

bool IsFrameFormatOnly(const std::string& format) { return format == "png" || format == "jpeg"; }

// The format of frames that it says; FORMAT_UNSPECIFIED: none.
v1::Format FrameFormatOf(const std::string& format) {
  return FormatOf(absl::StrCat("frame.", format));
}

// The format of one file that it says, as it is typed; VIDEO_FORMAT_UNSPECIFIED: none.
v1::VideoFormat VideoFormatOf(const std::string& format) {
  const auto& type = *v1::VideoFormat_descriptor();
  for (int i = 1; i < type.value_count(); ++i) {
    if (ChoiceOf(*type.value(i)) == format) {
      return static_cast<v1::VideoFormat>(type.value(i)->number());
    }
  }
  return v1::VIDEO_FORMAT_UNSPECIFIED;
}

// "clip.webp" is webp; empty: no format of one file.
std::string FormatOfVideoFile(const std::string& path) {
  const std::string extension =
      absl::AsciiStrToLower(std::filesystem::path(path).extension().string());
  if (extension == ".png") return "apng";
  if (extension == ".rgb") return "raw";
  return std::string(absl::StripPrefix(extension, "."));
}

std::string VideoExtensionOf(v1::VideoFormat format) {
  switch (format) {
    case v1::VIDEO_FORMAT_APNG:
      return "png";
    case v1::VIDEO_FORMAT_RAW:
      return "rgb";
    default:
      return ChoiceOf(*v1::VideoFormat_descriptor()->FindValueByNumber(format));
  }
}

absl::Status WrongOutput(const AnimateOptions& options, absl::string_view right) {
  return absl::InvalidArgumentError(absl::StrCat("--output ", options.output, ": ", right));
}

uint64_t FirstSeedOf(const v1::GenerateVideoRequest& request) {
  return request.seeds().empty() ? request.seed() : request.seeds(0);
}

Overwrite OverwriteOf(const AnimateOptions& options) {
  return options.force ? Overwrite::kReplace : Overwrite::kNever;
}

absl::StatusOr<FrameFiles> PlanFrames(AnimateOptions& options) {
  v1::Format format = FrameFormatOf(options.format);
  if (!options.format.empty() && format == v1::FORMAT_UNSPECIFIED) {
    return WrongOutput(options, absl::StrCat("takes frames, and --format ", options.format,
                                             " is one file's: name that"));
  }
  if (options.format.empty() && !options.output.empty() && !IsFolder(options.output)) {
    format = FormatOf(options.output);
    if (format == v1::FORMAT_UNSPECIFIED || format == v1::FORMAT_LATENT) {
      return WrongOutput(options, "end it in .png, .jpg, .webp or .rgb, or add --format");
    }
  }
  if (format == v1::FORMAT_UNSPECIFIED) format = v1::FORMAT_PNG;
  options.request.mutable_output()->set_format(format);
  return FrameFiles::Create({.output = options.output,
                             .extension = ExtensionOf(format),
                             .seed = FirstSeedOf(options.request),
                             .videos = VideosOf(options.request)},
                            OverwriteOf(options));
}

absl::StatusOr<PictureFiles> PlanVideos(AnimateOptions& options) {
  const bool is_file = !options.output.empty() && options.output != "-";
  std::string asked = options.format;
  if (asked.empty()) asked = is_file ? FormatOfVideoFile(options.output) : "webp";
  const v1::VideoFormat format = VideoFormatOf(asked);
  if (format == v1::VIDEO_FORMAT_UNSPECIFIED) {
    return WrongOutput(
        options,
        "one file is .webp, .png (animated), .avi, .y4m, .rgb or .webm, or as --format "
        "says (webp, apng, avi, y4m, raw, webm); frames go into a folder, or clip-%03d.png");
  }
  if (options.json && options.output == "-") {
    return absl::InvalidArgumentError("--json: not with --output -");
  }
  options.request.mutable_output()->set_file(format);
  const int videos = VideosOf(options.request);
  return PictureFiles({.output = options.output,
                       .extension = VideoExtensionOf(format),
                       .seed = FirstSeedOf(options.request),
                       .pictures = videos,
                       .total = videos},
                      OverwriteOf(options));
}

OptionGroup FrameOutputOptions(AnimateOptions& options) {
  v1::VideoOutput& output = *options.request.mutable_output();
  return {
      "Output",
      {WithLetter(
           'o', {"output", "NAME",
                 "one file of the video, clip.webp, .png (animated), .avi, .y4m, .rgb or\n"
                 ".webm, or -; or its frames: clip-%03d.png, with the number of each from 0, or a\n"
                 "folder, made where it ends with / (default: latent-SEED.webp)",
                 SetString(options.output)}),
       {"force", "", "overwrite files", SetSwitch(options.force)},
       ChoiceOption("format", "NAME",
                    "of one file webp, apng, avi, y4m, raw or webm (default: by NAME, else\n"
                    "webp); of frames png, jpeg, webp or raw (default: by NAME, else png)",
                    VideoFormats(), [&options](const std::string& name) { options.format = name; }),
       FieldOption(output, "quality"),
       FieldOption(output, "playback_fps"),
       FieldOption(output, "embed_parameters"),
       {"json", "",
        "a line of JSON for each file instead of its name, with \"file\", \"video\",\n"
        "\"frame\" (of a frame) and \"seed\", and one of how it went, as the API has it",
        SetSwitch(options.json)},
       WithLetter('q', {"quiet", "", "no progress", SetSwitch(options.quiet)})}};
}

OptionGroup AnimateConnectionOptions(AnimateOptions& options) {
  return {
      "Connection",
      {ServerOption(options.connection),
       ApiKeyOption(options.connection),
       {"timeout", "TIME", "give up after this long, such as 90s or 2m",
        SetDuration(options.timeout)},
       {"retries", "N",
        absl::StrCat("try so often again as long as nothing has come, where that is safe (default ",
                     RetryPolicy().retries, ")"),
        SetRetries(options.retries)},
       HelpOption(options.connection)}};
}

}  // namespace

std::vector<OptionGroup> AnimateOptionGroups(AnimateOptions& options) {
  std::vector<OptionGroup> groups = RequestOptions(options.request);
  groups.push_back(FrameOutputOptions(options));
  groups.push_back(AnimateConnectionOptions(options));
  groups.push_back(TlsOptions(options.connection));
  return groups;
}

absl::Status TakeImage(const std::vector<std::string>& words, AnimateOptions& options) {
  if (words.size() != 1) {
    return absl::InvalidArgumentError(
        "takes one image: latent animate photo.jpg (- reads it from standard input)");
  }
  ASSIGN_OR_RETURN(*options.request.mutable_image(), ReadFile(words.front()));
  return absl::OkStatus();
}

absl::StatusOr<AnimateFiles> PlanFiles(AnimateOptions& options) {
  v1::GenerateVideoRequest& request = options.request;
  if (!request.has_seed() && request.seeds().empty()) request.set_seed(std::random_device()());
  const bool no_name = options.output.empty();
  const bool frames = no_name ? IsFrameFormatOnly(options.format) : NamesFrames(options.output);
  AnimateFiles files;
  if (frames) {
    ASSIGN_OR_RETURN(files.frames, PlanFrames(options));
  } else {
    ASSIGN_OR_RETURN(files.videos, PlanVideos(options));
    RETURN_IF_ERROR(files.videos->Check());
  }
  return files;
}

int VideosOf(const v1::GenerateVideoRequest& request) {
  return std::max({1, request.seeds_size(), request.num_videos_per_prompt()});
}

}  // namespace latentd::client
