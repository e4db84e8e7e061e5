// latent status, latent memory
#include <iostream>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/commands/command_options.h"
#include "client/commands/commands.h"
#include "client/commands/interrupt.h"
#include "client/options/admin_address.h"
#include "client/options/api_key.h"
#include "client/options/tls_options.h"
#include "client/output/json_output.h"
#include "client/output/memory_text.h"
#include "client/rpc/admin_client.h"
#include "client/words/text.h"
#include "core/base/process/admin_socket.h"
#include "core/base/process/stop_signals.h"

namespace latentd::client {
namespace {

constexpr char kStatusIntroduction[] =
    R"(latent status says where a latentd stands: what it is doing, and which buckets are ready.

  latent status
  latent status --watch           again after every change, until Ctrl-C or the server's end
)";

constexpr char kMemoryIntroduction[] =
    R"(latent memory says what a latentd holds, and what it was predicted to: on the device, as a GPU,
and on the host, or as one memory where the device has none of its own.

  kept for reuse     taken from the GPU's driver for what comes next
  other              what else is in use there: the driver's own (contexts, modules, libraries),
                     what latentd rounds up, other processes'
  in use, predicted  what is predicted, and that
  pinned for copies  memory of the host; finished pictures and some state lie in it
)";

struct ReportOptions {
  Connection connection;
  bool json = false;
  bool watch = false;
};

// Both commands' ends of parsing: what to return at once, if anything.
std::optional<ExitCode> Parse(const std::vector<OptionGroup>& groups, const char* introduction,
                              const char* command, const std::vector<std::string>& arguments,
                              const ReportOptions& options) {
  const auto words = ParseCommand(groups, arguments, options.connection);
  if (options.connection.help) {
    std::cout << introduction << DescribeOptions(groups);
    return ExitCode::kOk;
  }
  if (!words.ok()) return UsageError(words.status(), command);
  if (words->empty()) return std::nullopt;
  return UsageError(absl::InvalidArgumentError("takes options only"), command);
}

std::vector<OptionGroup> StatusOptions(ReportOptions& options) {
  return {{"Options",
           {{"watch", "", "again after every change", SetSwitch(options.watch)},
            JsonOption(options.json),
            AdminServerOption(options.connection),
            ApiKeyOption(options.connection),
            HelpOption(options.connection)}},
          TlsOptions(options.connection)};
}

std::vector<OptionGroup> MemoryOptions(ReportOptions& options) {
  return {{"Options",
           {JsonOption(options.json), AdminServerOption(options.connection),
            ApiKeyOption(options.connection), HelpOption(options.connection)}},
          TlsOptions(options.connection)};
}

using Rows = std::vector<std::vector<std::string>>;

absl::Time TimeOf(const google::protobuf::Timestamp& stamp) {
  return absl::FromUnixSeconds(stamp.seconds());
}

std::string StateText(v1::ServerState state) {
  return absl::AsciiStrToLower(v1::ServerState_Name(state).substr(sizeof("SERVER_STATE_") - 1));
}

std::string DeviceText(const v1::DeviceStatus& device) {
  if (!device.fault().empty()) return absl::StrCat("has failed: ", device.fault());
  const std::string& reason = device.reason();
  return absl::StrCat(StateText(device.state()), reason.empty() ? "" : ": ", reason);
}

std::string ProgressText(const v1::ServerStatus& status) {
  if (status.state() != v1::SERVER_STATE_WARMING) return "";
  return absl::StrCat(", ", status.graphs_done(), " of ", status.graphs_total(), " graphs");
}

void PrintStatus(const v1::ServerStatus& status) {
  const absl::Time now = absl::Now();
  Rows rows = {{"state", absl::StrCat(StateText(status.state()), ProgressText(status))}};
  if (!status.reason().empty()) rows.push_back({"reason", status.reason()});
  rows.push_back({"started", AgoText(TimeOf(status.started()), now)});
  if (status.has_ready()) rows.push_back({"ready", AgoText(TimeOf(status.ready()), now)});
  for (const v1::BucketStatus& bucket : status.buckets()) {
    rows.push_back({BucketText(bucket, HasSeveralModels(status.buckets())),
                    bucket.ready() ? "ready" : absl::StrCat("not ready: ", bucket.reason())});
  }
  for (const v1::DeviceStatus& device : status.devices()) {
    rows.push_back({device.name(), DeviceText(device)});
  }
  rows.push_back({"version", status.version()});
  std::cout << TableText(rows) << std::flush;
}

}  // namespace

CommandShape StatusShape() {
  ReportOptions options;
  return {"status", "what it is doing, and which buckets are ready",
          WithoutTargets(StatusOptions(options))};
}

CommandShape MemoryShape() {
  ReportOptions options;
  return {"memory", "what it holds", WithoutTargets(MemoryOptions(options))};
}

ExitCode RunStatus(const std::vector<std::string>& arguments) {
  ReportOptions options;
  const std::vector<OptionGroup> groups = StatusOptions(options);
  if (const auto code = Parse(groups, kStatusIntroduction, "latent status", arguments, options)) {
    return *code;
  }
  BlockStopSignals();
  UseAdminSocket(AdminSocketFolder(), options.connection);
  AdminClient client(options.connection.server, options.connection.tls, options.connection.api_key);
  Interrupt interrupt([&client] { client.Cancel(); });
  bool connected = false;
  const auto show = [&](const v1::ServerStatus& status) {
    connected = true;
    options.json ? void(PrintJsonLine(status)) : PrintStatus(status);
  };
  v1::ServerStatus server_status;
  const grpc::Status status =
      options.watch ? client.WatchServerStatus(show) : client.GetServerStatus(server_status);
  if (interrupt.happened()) return ExitCode::kInterrupted;
  if (!status.ok()) return CallFailed(status, options.connection, connected);
  if (!options.watch) show(server_status);
  return ExitCode::kOk;
}

ExitCode RunMemory(const std::vector<std::string>& arguments) {
  ReportOptions options;
  const std::vector<OptionGroup> groups = MemoryOptions(options);
  if (const auto code = Parse(groups, kMemoryIntroduction, "latent memory", arguments, options)) {
    return *code;
  }
  BlockStopSignals();
  UseAdminSocket(AdminSocketFolder(), options.connection);
  AdminClient client(options.connection.server, options.connection.tls, options.connection.api_key);
  Interrupt interrupt([&client] { client.Cancel(); });
  v1::MemoryReport report;
  const grpc::Status status = client.GetMemoryReport(report);
  if (interrupt.happened()) return ExitCode::kInterrupted;
  if (!status.ok()) return CallFailed(status, options.connection, /*connected=*/false);
  if (options.json) return PrintJson(report);
  std::cout << MemoryText(report);
  return ExitCode::kOk;
}

}  // namespace latentd::client
