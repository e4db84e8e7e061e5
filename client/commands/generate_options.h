// The options of `latent generate`, and what follows from them before the call.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/options/arguments.h"
#include "client/options/connection.h"
#include "client/options/picture_files.h"
#include "client/options/prompts.h"
#include "client/rpc/retry.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::client {

struct GenerateOptions {
  Connection connection;
  PromptSource prompts;
  ::latent::v1::GenerateRequest request;  // every prompt's, but for the prompt itself
  std::string output;
  ::latent::v1::Format format = ::latent::v1::FORMAT_UNSPECIFIED;
  bool force = false;
  bool json = false;
  bool quiet = false;
  absl::Duration timeout = absl::InfiniteDuration();  // limit for each prompt
  RetryPolicy retries;
};

// `options` must outlive them.
std::vector<OptionGroup> GenerateOptionGroups(GenerateOptions& options);

// By --format, else by the name of the output, else PNG.
absl::Status ChooseFormat(GenerateOptions& options);

// One prompt's request, which has a seed, and where its pictures go.
struct PromptWork {
  ::latent::v1::GenerateRequest request;
  PictureFiles files;
};

// One for each prompt, in their order; each without a seed of its own gets a random one. An error
// if an image could not be written: no call is made then.
absl::StatusOr<std::vector<PromptWork>> PlanWork(const GenerateOptions& options,
                                                 const std::vector<std::string>& prompts);

}  // namespace latentd::client
