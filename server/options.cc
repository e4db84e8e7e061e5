#include "server/options.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/error_details.h"
#include "core/base/status_macros.h"

namespace latentd::server {
namespace {

namespace v1 = ::latent::v1;

// gRPC counts message sizes in an int.
constexpr int64_t kMaxRequestLimit = int64_t{1} << 30;
constexpr int64_t kMinRequestLimit = int64_t{4} << 10;
constexpr int kMaxQueueCapacity = 4096;
constexpr int kMaxThreads = 1024;
constexpr absl::Duration kMaxDrainTimeout = absl::Hours(24);

absl::Status Wrong(absl::string_view flag, absl::string_view value, absl::string_view right) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", Excerpt(value), ": must be ", right));
}

absl::Status CheckRange(absl::string_view flag, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Wrong(flag, absl::StrCat(value), absl::StrCat(low, " to ", high));
}

absl::StatusOr<int64_t> BytesFlag(absl::string_view flag, const std::string& text) {
  absl::StatusOr<int64_t> bytes = ParseBytes(text);
  if (!bytes.ok()) return Wrong(flag, text, "a number of bytes, such as 64MiB or 2GiB");
  return *bytes;
}

absl::StatusOr<absl::Duration> DrainTimeout(const std::string& text) {
  absl::Duration timeout;
  const bool parsed = absl::ParseDuration(text, &timeout);
  if (!parsed || timeout < absl::ZeroDuration() || timeout > kMaxDrainTimeout) {
    return Wrong("drain-timeout", text, "a duration of at most 24h, such as 30s or 1m30s");
  }
  return timeout;
}

absl::Status CheckListen(const std::string& listen) {
  if (absl::StartsWith(listen, "unix:") && listen.size() > 5) return absl::OkStatus();
  const size_t colon = listen.rfind(':');
  int port = -1;
  if (colon != std::string::npos && colon > 0 &&
      absl::SimpleAtoi(absl::string_view(listen).substr(colon + 1), &port) && port >= 0 &&
      port <= 65535) {
    return absl::OkStatus();
  }
  return Wrong("listen", listen, "HOST:PORT or unix:PATH, such as 127.0.0.1:50051");
}

absl::StatusOr<engine::Config> EngineConfig(const v1::ServerConfig& config) {
  engine::Config engine;
  engine.base = config.base();
  engine.refiner = config.refiner();
  engine.variant = config.variant();
  engine.backend = config.backend() == v1::REFERENCE ? "reference" : "cpu";
  RETURN_IF_ERROR(CheckRange("threads", config.threads(), 0, kMaxThreads));
  engine.threads = config.threads();
  if (!config.memory().empty()) {
    ASSIGN_OR_RETURN(engine.memory_bytes, BytesFlag("memory", config.memory()));
  }
  RETURN_IF_ERROR(CheckRange("queue-capacity", config.queue_capacity(), 1, kMaxQueueCapacity));
  engine.queue_capacity = config.queue_capacity();
  if (engine.base.empty() && !engine.refiner.empty()) {
    return Wrong("refiner", engine.refiner, "given together with --base");
  }
  return engine;
}

}  // namespace

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  static constexpr std::pair<absl::string_view, double> kUnits[] = {
      {"KiB", 1024.0}, {"MiB", 1024.0 * 1024}, {"GiB", 1024.0 * 1024 * 1024}, {"", 1.0}};
  for (const auto& [unit, factor] : kUnits) {
    absl::string_view number = text;
    if (!absl::ConsumeSuffix(&number, unit)) continue;
    double value = 0;
    if (!absl::SimpleAtod(number, &value) || !(value >= 0) || value * factor > 1e15) break;
    return static_cast<int64_t>(std::llround(value * factor));
  }
  return absl::InvalidArgumentError("not a number of bytes");
}

v1::ServerConfig DefaultConfig() {
  v1::ServerConfig config;
  config.set_listen("127.0.0.1:50051");
  config.set_backend(v1::CPU);
  config.set_threads(0);
  config.set_queue_capacity(64);
  config.set_max_request_bytes("32MiB");
  config.set_drain_timeout("30s");
  config.set_log_format(v1::TEXT);
  config.set_log_level(v1::INFO);
  return config;
}

absl::StatusOr<Options> ToOptions(const v1::ServerConfig& config) {
  Options options;
  RETURN_IF_ERROR(CheckListen(config.listen()));
  options.listen = config.listen();
  ASSIGN_OR_RETURN(options.engine, EngineConfig(config));
  ASSIGN_OR_RETURN(options.max_request_bytes,
                   BytesFlag("max-request-bytes", config.max_request_bytes()));
  RETURN_IF_ERROR(CheckRange("max-request-bytes", options.max_request_bytes, kMinRequestLimit,
                             kMaxRequestLimit));
  ASSIGN_OR_RETURN(options.drain_timeout, DrainTimeout(config.drain_timeout()));
  options.log_format = config.log_format();
  options.log_level = config.log_level();
  return options;
}

}  // namespace latentd::server
