// Where the pictures of one request go.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::client {

// Names: `output`, or latent-SEED.EXTENSION with the first picture's seed where it is empty; of
// several pictures, the K-th (from 1) gets -K before the extension. "-" is standard output, for one
// picture.
class PictureFiles {
 public:
  PictureFiles(std::string output, std::string extension, int pictures, Overwrite overwrite);

  // Before the call: whether what is known of the names can be written. `seed` is that of the
  // request, if it has one.
  absl::Status Check(std::optional<uint64_t> seed);

  // Where it went; empty for standard output.
  absl::StatusOr<std::string> Write(const ::latent::v1::Image& image);

  // After Check, which was given a seed or a name, and before a call that asks for previews:
  // whether they can be written beside the pictures.
  absl::Status CheckPreviews();

  // Instead of the one before of that picture. Where it went.
  absl::StatusOr<std::string> WritePreview(const ::latent::v1::Preview& preview);

  // The name of the picture with this index, and of its previews: star.png, star.preview.jpg.
  std::string Name(int index) const;
  std::string PreviewName(int index) const;

 private:
  const std::string output_;
  const std::string extension_;
  const int pictures_;
  const Overwrite overwrite_;
  std::optional<uint64_t> seed_;  // of the first picture
};

// What a file name says of its format: FORMAT_UNSPECIFIED where it says nothing that is known.
::latent::v1::Format FormatOf(const std::string& path);

// "png", "jpg", "webp", "rgb".
std::string ExtensionOf(::latent::v1::Format format);

}  // namespace latentd::client
