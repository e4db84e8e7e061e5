// latent health
#include <iostream>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/commands/command_options.h"
#include "client/commands/commands.h"
#include "client/commands/interrupt.h"
#include "client/options/api_key.h"
#include "client/options/tls_options.h"
#include "client/output/json_output.h"
#include "client/rpc/latent_client.h"
#include "core/base/process/stop_signals.h"

namespace latentd::client {
namespace {

using grpc::health::v1::HealthCheckResponse;

constexpr char kIntroduction[] =
    R"(latent health asks a latentd whether it serves: SERVING (exit code 0), NOT_SERVING (4), or nobody there (3).

  latent health --wait 60s        as soon as it serves, at most this long
  latent health --service liveness
)";

constexpr absl::Duration kPause = absl::Milliseconds(200);

struct HealthOptions {
  Connection connection;
  std::string service;
  absl::Duration wait;
  bool json = false;
};

std::vector<OptionGroup> AllOptions(HealthOptions& options) {
  return {
      {"Options",
       {{"wait", "TIME", "ask again until it serves, at most this long", SetDuration(options.wait)},
        {"service", "NAME", "latent.v1.ImageGeneration, liveness (default: the server)",
         SetString(options.service)},
        ServerOption(options.connection),
        ApiKeyOption(options.connection),
        JsonOption(options.json),
        HelpOption(options.connection)}},
      TlsOptions(options.connection)};
}

void Print(const HealthCheckResponse::ServingStatus& health, bool json) {
  if (!json) {
    std::cout << HealthCheckResponse::ServingStatus_Name(health) << '\n';
    return;
  }
  HealthCheckResponse response;
  response.set_status(health);
  PrintJson(response);
}

// Client of the latest try. Each try connects anew: gRPC may try a name's addresses again only when
// it looks the name up again, which it does once in 30 s. Thread-safe.
class LatestClient {
 public:
  explicit LatestClient(const Connection& connection) : connection_(connection) {}

  Client& Renew() {
    const Connection& to = connection_;
    absl::MutexLock lock(&mutex_);
    client_.reset();  // else the new one would share its connection
    client_.emplace(to.server, RetryPolicy(), to.tls, to.api_key);
    if (cancelled_) client_->Cancel();
    return *client_;
  }

  void Cancel() {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    if (client_) client_->Cancel();
  }

 private:
  const Connection& connection_;
  absl::Mutex mutex_;
  std::optional<Client> client_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

ExitCode Ask(const HealthOptions& options) {
  LatestClient client(options.connection);
  Interrupt interrupt([&client] { client.Cancel(); });
  const absl::Time end = absl::Now() + options.wait;
  for (bool is_first = true;; is_first = false) {
    HealthCheckResponse::ServingStatus health = HealthCheckResponse::UNKNOWN;
    const grpc::Status status = client.Renew().CheckHealth(options.service, health);
    if (interrupt.happened()) return ExitCode::kInterrupted;
    if (status.ok() && health == HealthCheckResponse::SERVING) {
      Print(health, options.json);
      return ExitCode::kOk;
    }
    const bool pointless = status.error_code() == grpc::StatusCode::NOT_FOUND ||
                           status.error_code() == grpc::StatusCode::UNIMPLEMENTED ||
                           (is_first && !ExplainTls(status, options.connection).empty());
    if (absl::Now() + kPause > end || pointless) {
      if (!status.ok()) return CallFailed(status, options.connection, /*connected=*/false);
      Print(health, options.json);
      return ExitCode::kRefused;
    }
    if (interrupt.WaitFor(kPause)) return ExitCode::kInterrupted;
  }
}

}  // namespace

CommandShape HealthShape() {
  HealthOptions options;
  return {"health", "whether it serves", WithoutTargets(AllOptions(options))};
}

ExitCode RunHealth(const std::vector<std::string>& arguments) {
  HealthOptions options;
  const std::vector<OptionGroup> groups = AllOptions(options);
  const auto words = ParseCommand(groups, arguments, options.connection);
  if (options.connection.help) {
    std::cout << kIntroduction << DescribeOptions(groups);
    return ExitCode::kOk;
  }
  if (!words.ok()) return UsageError(words.status(), "latent health");
  if (!words->empty()) {
    return UsageError(absl::InvalidArgumentError("takes options only"), "latent health");
  }
  BlockStopSignals();
  return Ask(options);
}

}  // namespace latentd::client
