// latentd's flags: one for every field of latent.v1.ServerConfig, with dashes, and a few that are
// not configuration.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "latent/v1/config.pb.h"

namespace latentd::server::config {

struct CommandLine {
  latent::v1::ServerConfig flags;  // only what was given
  std::string config_file;
  bool print_config = false;
  bool exit_when_ready = false;
  bool exit_if_degraded = false;
  bool version = false;
  bool help = false;
};

// --name=value and --name value both work; switches are --name, --noname (or --no-name) and
// --name=true or false. A flag that is given twice must be given in the same words.
// INVALID_ARGUMENT names what is wrong. `arguments` without the program's name.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments);

}  // namespace latentd::server::config
