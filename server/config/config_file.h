// The configuration file: latent.v1.ServerConfig in protobuf's text format.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "latent/v1/config.pb.h"

namespace latentd::server::config {

// NOT_FOUND where it cannot be read; INVALID_ARGUMENT with file and line for everything that is
// wrong in it, unknown fields included.
absl::StatusOr<latent::v1::ServerConfig> ReadConfigFile(const std::string& path);

// `name` is what messages call the file.
absl::StatusOr<latent::v1::ServerConfig> ParseConfig(absl::string_view text,
                                                     absl::string_view name);

// The same as a file, one line for each field that is set.
std::string PrintConfig(const latent::v1::ServerConfig& config);

}  // namespace latentd::server::config
