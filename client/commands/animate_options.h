// The options of `latent animate`, and what follows from them before the call.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/options/arguments.h"
#include "client/options/connection.h"
#include "client/options/frame_files.h"
#include "client/options/picture_files.h"
#include "client/rpc/retry.h"
#include "latent/v1/video_generation.pb.h"

namespace latentd::client {

struct AnimateOptions {
  Connection connection;
  ::latent::v1::GenerateVideoRequest request;
  std::string output;
  std::string format;  // as it is typed: of frames, or of a video's file
  bool force = false;
  bool json = false;
  bool quiet = false;
  absl::Duration timeout = absl::InfiniteDuration();
  RetryPolicy retries;
};

// `options` must outlive them.
std::vector<OptionGroup> AnimateOptionGroups(AnimateOptions& options);

// Reads the file that the one word names; "-" is standard input.
absl::Status TakeImage(const std::vector<std::string>& words, AnimateOptions& options);

// The files that a command's results go into: those of frames, or one of each video.
struct AnimateFiles {
  std::optional<FrameFiles> frames;
  std::optional<PictureFiles> videos;  // one of the two
};

// Gives the request a format, by --format, else by the name of the output, and a seed where it has
// none. A folder or a name with "%" takes frames, else PNG; another name, or none, a file, else
// animated WebP. An error if that says no format, or no names.
absl::StatusOr<AnimateFiles> PlanFiles(AnimateOptions& options);

// Videos that are asked for.
int VideosOf(const ::latent::v1::GenerateVideoRequest& request);

}  // namespace latentd::client
