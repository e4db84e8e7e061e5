#include "client/commands/animate_options.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/commands/command_options.h"
#include "client/options/api_key.h"
#include "client/options/files.h"
#include "client/options/picture_files.h"
#include "client/options/request_options.h"
#include "client/options/tls_options.h"
#include "core/base/errors/status_macros.h"

namespace latentd::client {
namespace {

// Formats of frames: those of pictures that have pixels.
const std::vector<std::string>& FrameFormats() {
  static const auto& formats = *new std::vector<std::string>{"png", "jpeg", "webp", "raw"};
  return formats;
}

OptionGroup FrameOutputOptions(AnimateOptions& options) {
  v1::VideoOutput& output = *options.request.mutable_output();
  return {
      "Output",
      {WithLetter('o', {"output", "NAME",
                        "clip-%03d.png, with a number for each frame from 0; or a folder, made\n"
                        "where it ends with / (default: latent-SEED/)",
                        SetString(options.output)}),
       {"force", "", "overwrite files", SetSwitch(options.force)},
       ChoiceOption("format", "NAME", "png, jpeg, webp or raw (default: by NAME, else png)",
                    FrameFormats(),
                    [&options](const std::string& name) {
                      options.format = FormatOf(absl::StrCat("frame.", name));
                    }),
       FieldOption(output, "quality"),
       {"json", "",
        "a line of JSON for each frame instead of its file's name, with its\n"
        "\"file\", \"video\", \"frame\" and \"seed\", and one of how it went, as the API has it",
        SetSwitch(options.json)},
       WithLetter('q', {"quiet", "", "no progress", SetSwitch(options.quiet)})}};
}

OptionGroup AnimateConnectionOptions(AnimateOptions& options) {
  const auto set_retries = [&options](const std::string& text) {
    int retries = 0;
    if (!absl::SimpleAtoi(text, &retries) || retries < 0) {
      return absl::InvalidArgumentError("must be 0 or more");
    }
    options.retries.retries = retries;
    return absl::OkStatus();
  };
  return {"Connection",
          {ServerOption(options.connection),
           ApiKeyOption(options.connection),
           {"timeout", "TIME", "give up after this long, such as 90s or 2m",
            SetDuration(options.timeout)},
           {"retries", "N",
            absl::StrCat(
                "try so often again as long as no frame has come, where that is safe (default ",
                RetryPolicy().retries, ")"),
            set_retries},
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

absl::StatusOr<FrameFiles> PlanFrames(AnimateOptions& options) {
  v1::GenerateVideoRequest& request = options.request;
  if (!request.has_seed() && request.seeds().empty()) request.set_seed(std::random_device()());
  if (options.format == v1::FORMAT_UNSPECIFIED && !IsFolder(options.output)) {
    options.format = FormatOf(options.output);
    if (options.format == v1::FORMAT_LATENT) options.format = v1::FORMAT_UNSPECIFIED;
  }
  if (options.format == v1::FORMAT_UNSPECIFIED && !options.output.empty() &&
      !IsFolder(options.output)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--output ", options.output,
        ": end it in .png, .jpg, .webp or .rgb, or add --format; a folder is there, or ends in /"));
  }
  if (options.format == v1::FORMAT_UNSPECIFIED) options.format = v1::FORMAT_PNG;
  request.mutable_output()->set_format(options.format);
  return FrameFiles::Create({.output = options.output,
                             .extension = ExtensionOf(options.format),
                             .seed = request.seeds().empty() ? request.seed() : request.seeds(0),
                             .videos = VideosOf(request)},
                            options.force ? Overwrite::kReplace : Overwrite::kNever);
}

int VideosOf(const v1::GenerateVideoRequest& request) {
  return std::max({1, request.seeds_size(), request.num_videos_per_prompt()});
}

}  // namespace latentd::client
