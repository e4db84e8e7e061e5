// The options of `latent animate`, and what follows from them before the call.
#pragma once

#include <string>
#include <vector>

#include "client/options/arguments.h"
#include "client/options/connection.h"
#include "client/options/frame_files.h"
#include "client/rpc/retry.h"
#include "latent/v1/video_generation.pb.h"

namespace latentd::client {

struct AnimateOptions {
  Connection connection;
  ::latent::v1::GenerateVideoRequest request;
  std::string output;
  ::latent::v1::Format format = ::latent::v1::FORMAT_UNSPECIFIED;
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

// Gives the request a format, by --format, else by the name of the output, else PNG, and a seed
// where it has none. An error if the frames have no names.
absl::StatusOr<FrameFiles> PlanFrames(AnimateOptions& options);

// Videos that are asked for.
int VideosOf(const ::latent::v1::GenerateVideoRequest& request);

}  // namespace latentd::client
