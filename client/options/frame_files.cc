#include "client/options/frame_files.h"

#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/options/picture_files.h"
#include "core/base/errors/status_macros.h"

namespace latentd::client {
namespace {

namespace fs = std::filesystem;

constexpr int kDigits = 3;  // as many as a video's frames have
constexpr int kMostDigits = 9;

// "%d", "%2d" or "%03d": the number's digits and the characters that say so.
struct Placeholder {
  size_t begin = 0, end = 0;
  int digits = 1;
};

absl::StatusOr<Placeholder> FindPlaceholder(const std::string& output) {
  Placeholder found{.begin = output.find('%')};
  found.end = found.begin + 1;
  while (found.end < output.size() && absl::ascii_isdigit(output[found.end])) ++found.end;
  const std::string digits = output.substr(found.begin + 1, found.end - found.begin - 1);
  const bool is_number =
      digits.empty() || (absl::SimpleAtoi(digits, &found.digits) && found.digits <= kMostDigits);
  const bool ends = found.end < output.size() && output[found.end] == 'd';
  ++found.end;
  if (is_number && ends && output.find('%', found.end) == std::string::npos) return found;
  return absl::InvalidArgumentError(absl::StrCat(
      "--output ", output, ": takes one %d, such as clip-%03d.png, for the number of a frame"));
}

}  // namespace

bool NamesFrames(const std::string& output) {
  return output.empty() || output.find('%') != std::string::npos || IsFolder(output);
}

absl::StatusOr<FrameFiles> FrameFiles::Create(FrameNames names, Overwrite overwrite) {
  const std::string output =
      names.output.empty() ? absl::StrCat("latent-", names.seed, "/") : names.output;
  if (output.find('%') != std::string::npos) {
    ASSIGN_OR_RETURN(const Placeholder found, FindPlaceholder(output));
    return FrameFiles(output.substr(0, found.begin), found.digits, output.substr(found.end),
                      std::move(names), overwrite);
  }
  const std::string before = fs::path(output) / absl::StrCat(names.seed, "-");
  const std::string after = absl::StrCat(".", names.extension);
  return FrameFiles(before, kDigits, after, std::move(names), overwrite);
}

FrameFiles::FrameFiles(std::string before, int digits, std::string after, FrameNames names,
                       Overwrite overwrite)
    : before_(std::move(before)),
      digits_(digits),
      after_(std::move(after)),
      names_(std::move(names)),
      overwrite_(overwrite) {}

absl::Status FrameFiles::Prepare(int frames, bool previews) const {
  const bool makes = names_.output.empty() || names_.output.back() == '/';
  const fs::path folder = fs::path(before_).parent_path();
  std::error_code error;
  if (makes && !folder.empty()) fs::create_directories(folder, error);
  if (error) return absl::UnknownError(absl::StrCat(folder.string(), ": ", error.message()));
  for (int video = 0; video < names_.videos; ++video) {
    for (int frame = 0; frame < frames; ++frame) {
      RETURN_IF_ERROR(CheckWritable(Name(video, frame), overwrite_));
    }
    if (previews) RETURN_IF_ERROR(CheckWritable(PreviewName(video), overwrite_));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FrameFiles::Write(int video, int frame,
                                              const std::string& bytes) const {
  std::string name = Name(video, frame);
  RETURN_IF_ERROR(WriteFile(name, bytes, overwrite_));
  return name;
}

absl::StatusOr<std::string> FrameFiles::WritePreview(
    const ::latent::v1::VideoPreview& preview) const {
  std::string name = PreviewName(preview.video_index());
  RETURN_IF_ERROR(WriteFile(name, preview.data(), Overwrite::kReplace));
  return name;
}

std::string FrameFiles::Name(int video, int frame) const {
  return absl::StrCat(Before(video), absl::StrFormat("%0*d", digits_, frame), after_);
}

std::string FrameFiles::PreviewName(int video) const {
  return absl::StrCat(Before(video), "preview.webp");
}

std::string FrameFiles::Before(int video) const {
  return names_.videos == 1 ? before_ : absl::StrCat(before_, video + 1, "-");
}

}  // namespace latentd::client
