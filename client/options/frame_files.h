// The files that the frames of a command's videos go into.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/options/files.h"
#include "latent/v1/video_generation.pb.h"

namespace latentd::client {

// The parts of the names. `output` says "clip-%02d.png", with the frame's number from 0 in place of
// "%02d"; or a folder, where frames are SEED-NUMBER.EXTENSION, which is made where its name ends
// with "/"; or nothing: the folder latent-SEED/, likewise. The K-th of several videos (from 1) has
// -K before that.
struct FrameNames {
  std::string output;
  std::string extension;
  uint64_t seed = 0;  // seed of the first video
  int videos = 1;
};

// True if `output` is a name of frames: one with a "%", a folder, or nothing.
bool NamesFrames(const std::string& output);

class FrameFiles {
 public:
  // INVALID_ARGUMENT: what follows a "%" of the name is no number's place. REQUIRES: NamesFrames.
  static absl::StatusOr<FrameFiles> Create(FrameNames names, Overwrite overwrite);

  // Makes the folder where one is to be made, and is OK if all frames of all videos can be written,
  // and with `previews` these.
  absl::Status Prepare(int frames, bool previews = false) const;

  // Returns where it went.
  absl::StatusOr<std::string> Write(int video, int frame, const std::string& bytes) const;

  // Instead of the one before of that video. Where it went.
  absl::StatusOr<std::string> WritePreview(const ::latent::v1::VideoPreview& preview) const;

  // Both count from 0.
  std::string Name(int video, int frame) const;
  // "clip-preview.webp" of "clip-%02d.png", whatever follows the number; SEED-preview.webp in a
  // folder.
  std::string PreviewName(int video) const;

 private:
  FrameFiles(std::string before, int digits, std::string after, FrameNames names,
             Overwrite overwrite);

  // The text before the number in names of that video.
  std::string Before(int video) const;

  std::string before_;  // text before the number
  int digits_;          // with zeros in front
  std::string after_;
  FrameNames names_;
  Overwrite overwrite_;
};

}  // namespace latentd::client
