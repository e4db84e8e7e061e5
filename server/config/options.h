// The options that result from flags, configuration file and defaults.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/engine/api/config.h"
#include "latent/v1/config.pb.h"
#include "server/tls/tls_files.h"
#include "server/tracing/endpoint.h"

namespace latentd::server::config {

struct Options {
  std::string listen;          // HOST:PORT or unix:PATH
  std::string admin_listen;    // the same; empty: a Unix socket (core/base/process/admin_socket.h)
  std::string metrics_listen;  // HOST:PORT; empty: nowhere
  std::string health_listen;   // the same
  std::string http_listen;     // the same
  std::vector<std::string> http_cors_origins;  // origins of pages that may ask there
  std::string http_defaults;                   // fields of requests there, in the text format
  bool http_page = false;                      // the page for people is there
  tls::TlsFiles tls_files;
  std::string api_key_file;                        // empty: callers need no key
  std::optional<tracing::Endpoint> otlp_endpoint;  // nothing: spans go nowhere
  engine::Config engine;
  bool allow_import = false;
  int64_t max_request_bytes = 0;
  int max_connections = 0;
  absl::Duration stall_timeout;
  absl::Duration max_connection_age, max_connection_age_grace;  // infinite: without end
  absl::Duration drain_timeout;
  // For this start only, so no fields of the configuration.
  bool exit_when_ready = false;
  bool exit_if_degraded = false;
  latent::v1::LogFormat log_format = latent::v1::TEXT;
  latent::v1::LogLevel log_level = latent::v1::INFO;
};

// Every field set, except where empty means "find out" or "none", and precision.
latent::v1::ServerConfig DefaultConfig();

// Sets the precision where it is empty: what it is by default depends on the backend.
void SetDefaultPrecision(latent::v1::ServerConfig& config);

// $XDG_CACHE_HOME/latentd, else $HOME/.cache/latentd; empty where neither is an absolute path.
// Null: not set.
std::string DefaultCacheDirectory(const char* xdg_cache_home, const char* home);

// INVALID_ARGUMENT names the flag that is wrong, in any of its spellings. `config` has every field
// that DefaultConfig has; checkpoints are not looked at.
absl::StatusOr<Options> ToOptions(const latent::v1::ServerConfig& config);

}  // namespace latentd::server::config
