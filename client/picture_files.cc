#include "client/picture_files.h"

#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace latentd::client {

namespace v1 = ::latent::v1;

PictureFiles::PictureFiles(std::string output, std::string extension, int pictures,
                           Overwrite overwrite)
    : output_(std::move(output)),
      extension_(std::move(extension)),
      pictures_(pictures),
      overwrite_(overwrite) {}

absl::Status PictureFiles::Check(std::optional<uint64_t> seed) {
  if (output_ == "-") {
    return pictures_ == 1
               ? absl::OkStatus()
               : absl::InvalidArgumentError("--output -: takes one picture, not several");
  }
  seed_ = seed;
  // A random seed makes names that nobody has used.
  if (output_.empty() && !seed_) return CheckWritable(Name(0), Overwrite::kReplace);
  for (int index = 0; index < pictures_; ++index) {
    absl::Status writable = CheckWritable(Name(index), overwrite_);
    if (!writable.ok()) return writable;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PictureFiles::Write(const v1::Image& image) {
  if (output_ == "-") {
    const absl::Status written = WriteStandardOutput(image.data());
    if (!written.ok()) return written;
    return std::string();
  }
  if (!seed_) seed_ = image.seed();
  std::string name = Name(image.index());
  const absl::Status written = WriteFile(name, image.data(), overwrite_);
  if (!written.ok()) return written;
  return name;
}

std::string PictureFiles::Name(int index) const {
  std::string name =
      output_.empty() ? absl::StrCat("latent-", seed_.value_or(0), ".", extension_) : output_;
  if (pictures_ == 1) return name;
  const std::filesystem::path path(name);
  return path.parent_path() /
         absl::StrCat(path.stem().string(), "-", index + 1, path.extension().string());
}

absl::Status PictureFiles::CheckPreviews() {
  if (output_ == "-") {
    return absl::InvalidArgumentError("--previews: go into files, not with --output -");
  }
  for (int index = 0; index < pictures_; ++index) {
    absl::Status writable = CheckWritable(PreviewName(index), overwrite_);
    if (!writable.ok()) return writable;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PictureFiles::WritePreview(const v1::Preview& preview) {
  std::string name = PreviewName(preview.image_index());
  const absl::Status written = WriteFile(name, preview.data(), Overwrite::kReplace);
  if (!written.ok()) return written;
  return name;
}

std::string PictureFiles::PreviewName(int index) const {
  return std::filesystem::path(Name(index)).replace_extension(".preview.jpg");
}

v1::Format FormatOf(const std::string& path) {
  const std::string extension =
      absl::AsciiStrToLower(std::filesystem::path(path).extension().string());
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
