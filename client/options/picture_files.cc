#include "client/options/picture_files.h"

#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"

namespace latentd::client {

namespace fs = std::filesystem;
namespace v1 = ::latent::v1;

PictureFiles::PictureFiles(PictureNames names, Overwrite overwrite)
    : names_(std::move(names)), overwrite_(overwrite) {}

absl::Status PictureFiles::Check() const {
  if (names_.output == "-") {
    return names_.total == 1
               ? absl::OkStatus()
               : absl::InvalidArgumentError(
                     "--output -: takes one picture, not several; name a file or a folder");
  }
  for (int index = 0; index < names_.pictures; ++index) {
    RETURN_IF_ERROR(CheckWritable(Name(index), overwrite_));
  }
  return absl::OkStatus();
}

absl::Status PictureFiles::CheckPreviews() const {
  if (names_.output == "-") {
    return absl::InvalidArgumentError("--previews: go into files, not with --output -");
  }
  for (int index = 0; index < names_.pictures; ++index) {
    RETURN_IF_ERROR(CheckWritable(PreviewName(index), overwrite_));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PictureFiles::Write(const v1::Image& image) const {
  if (names_.output == "-") {
    RETURN_IF_ERROR(WriteStandardOutput(image.data()));
    return std::string();
  }
  std::string name = Name(image.index());
  RETURN_IF_ERROR(WriteFile(name, image.data(), overwrite_));
  return name;
}

absl::StatusOr<std::string> PictureFiles::WritePreview(const v1::Preview& preview) const {
  return WritePreviewOf(preview.image_index(), preview.data());
}

absl::StatusOr<std::string> PictureFiles::WritePreview(const v1::VideoPreview& preview) const {
  return WritePreviewOf(preview.video_index(), preview.data());
}

absl::StatusOr<std::string> PictureFiles::WritePreviewOf(int index,
                                                         const std::string& bytes) const {
  std::string name = PreviewName(index);
  RETURN_IF_ERROR(WriteFile(name, bytes, Overwrite::kReplace));
  return name;
}

std::string PictureFiles::Name(int index) const {
  fs::path path = names_.output;
  if (names_.output.empty() || IsFolder(names_.output)) {
    path /= absl::StrCat("latent-", names_.seed, ".", names_.extension);
  }
  if (names_.total == 1) return path;
  const int number = names_.before + index + 1;
  return path.parent_path() /
         absl::StrCat(path.stem().string(), "-", number, path.extension().string());
}

std::string PictureFiles::PreviewName(int index) const {
  return fs::path(Name(index))
      .replace_extension(absl::StrCat(".preview.", names_.preview_extension));
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return absl::EndsWith(path, "/") || fs::is_directory(path, error);
}

v1::Format FormatOf(const std::string& path) {
  const std::string extension = absl::AsciiStrToLower(fs::path(path).extension().string());
  if (extension == ".png") return v1::FORMAT_PNG;
  if (extension == ".jpg" || extension == ".jpeg") return v1::FORMAT_JPEG;
  if (extension == ".webp") return v1::FORMAT_WEBP;
  if (extension == ".rgb" || extension == ".raw") return v1::FORMAT_RAW_RGB8;
  if (extension == ".safetensors" || extension == ".latent") return v1::FORMAT_LATENT;
  return v1::FORMAT_UNSPECIFIED;
}

std::string ExtensionOf(v1::Format format) {
  switch (format) {
    case v1::FORMAT_JPEG:
      return "jpg";
    case v1::FORMAT_WEBP:
      return "webp";
    case v1::FORMAT_RAW_RGB8:
      return "rgb";
    case v1::FORMAT_LATENT:
      return "safetensors";
    default:
      return "png";
  }
}

}  // namespace latentd::client
