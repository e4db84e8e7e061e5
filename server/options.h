// What flags, configuration file and defaults come to.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/engine/engine.h"
#include "latent/v1/config.pb.h"

namespace latentd::server {

struct Options {
  std::string listen;  // HOST:PORT or unix:PATH
  engine::Config engine;
  int64_t max_request_bytes = 0;
  absl::Duration drain_timeout;
  latent::v1::LogFormat log_format = latent::v1::TEXT;
  latent::v1::LogLevel log_level = latent::v1::INFO;
};

// Every field set, except where empty means "find out": the checkpoints, threads, memory.
latent::v1::ServerConfig DefaultConfig();

// INVALID_ARGUMENT names the flag that is wrong, in any of its spellings. `config` has every field
// that DefaultConfig has; checkpoints are not looked at.
absl::StatusOr<Options> ToOptions(const latent::v1::ServerConfig& config);

// "1048576", "64MiB", "1.5GiB"; not negative.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

}  // namespace latentd::server
