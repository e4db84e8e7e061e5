// The files that the pictures of one prompt go into.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/options/files.h"
#include "latent/v1/image_generation.pb.h"
#include "latent/v1/video_generation.pb.h"

namespace latentd::client {

// The parts of the names: `output`, or latent-SEED.EXTENSION where it is empty, or that in
// `output` where it is a folder. Where a command draws several pictures the K-th of them (from 1)
// gets -K before the extension. "-" is standard output, for one picture.
struct PictureNames {
  std::string output;
  std::string extension;
  uint64_t seed = 0;  // seed of the prompt's first image
  int before = 0;     // pictures of the prompts before this one
  int pictures = 1;   // images of this prompt
  int total = 1;      // images of all prompts
  std::string preview_extension = "jpg";
};

class PictureFiles {
 public:
  PictureFiles(PictureNames names, Overwrite overwrite);

  // Call it before the server is asked: OK if all of them can be written.
  absl::Status Check() const;

  // Before a call that asks for previews: whether they can be written beside the pictures.
  absl::Status CheckPreviews() const;

  // Returns where it went; empty for standard output.
  absl::StatusOr<std::string> Write(const ::latent::v1::Image& image) const;

  // Instead of the one before of that picture. Where it went.
  absl::StatusOr<std::string> WritePreview(const ::latent::v1::Preview& preview) const;
  absl::StatusOr<std::string> WritePreview(const ::latent::v1::VideoPreview& preview) const;

  // The name of the prompt's picture with this index (from 0), and of its previews: star.png,
  // star.preview.jpg.
  std::string Name(int index) const;
  std::string PreviewName(int index) const;

  // Their number.
  int pictures() const { return names_.pictures; }

 private:
  absl::StatusOr<std::string> WritePreviewOf(int index, const std::string& bytes) const;

  PictureNames names_;
  Overwrite overwrite_;
};

// One that is there, or a name with / at its end.
bool IsFolder(const std::string& path);

// The format that a file name says: FORMAT_UNSPECIFIED where it says nothing that is known.
::latent::v1::Format FormatOf(const std::string& path);

// "png", "jpg", "webp", "rgb", "safetensors".
std::string ExtensionOf(::latent::v1::Format format);

}  // namespace latentd::client
