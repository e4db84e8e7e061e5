// Drawing the same requests on two servers, for `latent compare`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/options/connection.h"
#include "client/output/error_text.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::client {

struct CompareOptions {
  Connection connection;  // both servers', but for their addresses
  std::string server_a, server_b;
  ::latent::v1::GenerateRequest request;  // every prompt's, but for the prompt itself
  std::string page;                       // a file for ComparisonPage; empty: none
  std::optional<double> fail_under;       // the least SSIM of the worst picture
  bool force = false;                     // overwrites the page
  bool json = false;
  bool quiet = false;
  absl::Duration timeout = absl::InfiniteDuration();  // limit for each call
};

// Draws all pictures of all prompts on both, and on the first one those of the yardsticks too
// (client/output/comparison_report.h); says on standard output how alike they are. Progress and
// errors go to standard error. Ends at the first call that fails, with its exit code, or at Ctrl-C;
// kFailed if a picture is less alike than `fail_under`.
ExitCode CompareServers(const CompareOptions& options, const std::vector<std::string>& prompts);

}  // namespace latentd::client
