// latent adapters
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/commands/command_options.h"
#include "client/commands/commands.h"
#include "client/commands/interrupt.h"
#include "client/options/admin_address.h"
#include "client/options/api_key.h"
#include "client/options/tls_options.h"
#include "client/output/json_output.h"
#include "client/rpc/admin_client.h"
#include "client/words/text.h"
#include "core/base/process/admin_socket.h"
#include "core/base/process/stop_signals.h"

namespace latentd::client {
namespace {

constexpr char kAdaptersIntroduction[] =
    R"(latent adapters lists what lies below latentd's --adapters, and says why some are not served.

  latent adapters                   or latent adapters list
  latent adapters load NAME         reads all of it, and says what is wrong with it
  latent adapters evict NAME        weights that it is merged into leave memory; a request merges them again
  latent adapters pin NAME          these are never evicted to make room for others
  latent adapters unpin NAME
)";

struct AdaptersOptions {
  Connection connection;
  bool json = false;
};

std::vector<OptionGroup> AdaptersOptionGroups(AdaptersOptions& options) {
  return {{"Options",
           {JsonOption(options.json), AdminServerOption(options.connection),
            ApiKeyOption(options.connection), HelpOption(options.connection)}},
          TlsOptions(options.connection)};
}

std::string KindText(const v1::AdapterInfo& info) {
  switch (info.kind()) {
    case v1::ADAPTER_KIND_LORA:
      return absl::StrCat("LoRA", info.rank() == 0 ? "" : absl::StrCat(", rank ", info.rank()),
                          info.preset().empty() ? "" : absl::StrCat(", ", info.preset()));
    case v1::ADAPTER_KIND_TEXTUAL_INVERSION:
      return absl::StrCat("textual inversion, ", info.vectors(),
                          info.vectors() == 1 ? " token" : " tokens");
    case v1::ADAPTER_KIND_CONTROLNET:
      return info.control_modes().empty()
                 ? "ControlNet"
                 : absl::StrCat("ControlNet-Union, ", info.control_modes_size(), " modes");
    case v1::ADAPTER_KIND_IP_ADAPTER:
      if (info.image_tokens() == 0) return "IP-Adapter";
      return absl::StrCat("IP-Adapter, ", info.variant(), ", ", info.image_tokens(), " tokens");
    default:
      return "unknown";
  }
}

std::string AdapterStateText(const v1::AdapterStatus& adapter) {
  if (!adapter.problem().empty()) return "not served";
  return absl::StrCat(adapter.loaded() ? "loaded" : "in its file",
                      adapter.pinned() ? " (pinned)" : "");
}

std::string UsedText(const v1::AdapterStatus& adapter) {
  if (!adapter.has_last_used()) return "never";
  return AgoText(absl::FromUnixSeconds(adapter.last_used().seconds()), absl::Now());
}

std::string SaysText(const v1::AdapterStatus& adapter) {
  const v1::AdapterInfo& info = adapter.info();
  if (!adapter.problem().empty()) return adapter.problem();
  if (!info.trigger_phrase().empty()) return info.trigger_phrase();
  return absl::StrJoin(info.trigger_words(), ", ");
}

void PrintAdapters(const v1::ListAdaptersResponse& response) {
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "KIND", "STATE", "FOR", "LAST USE", "WORDS, OR WHY NOT"}};
  for (const v1::AdapterStatus& adapter : response.adapters()) {
    rows.push_back({adapter.info().name(), KindText(adapter.info()), AdapterStateText(adapter),
                    absl::StrJoin(adapter.info().models(), ", "), UsedText(adapter),
                    SaysText(adapter)});
  }
  std::cout << TableText(rows);
}

bool IsList(const std::vector<std::string>& words) {
  return words.empty() || (words.size() == 1 && words.front() == "list");
}

// The call of a verb; a changed adapter is a list of one.
grpc::Status AskOf(AdminClient& client, const std::vector<std::string>& words,
                   v1::ListAdaptersResponse& response) {
  if (IsList(words)) return client.ListAdapters(response);
  const std::string &verb = words[0], &name = words[1];
  v1::AdapterStatus& adapter = *response.add_adapters();
  if (verb == "load") return client.LoadAdapter(name, adapter);
  if (verb == "evict") return client.EvictAdapter(name, adapter);
  return client.PinAdapter(name, verb == "pin", adapter);
}

absl::Status CheckVerbs(const std::vector<std::string>& words) {
  if (IsList(words)) return absl::OkStatus();
  const std::string& verb = words.front();
  const bool known = verb == "load" || verb == "evict" || verb == "pin" || verb == "unpin";
  if (!known) {
    return absl::InvalidArgumentError(
        absl::StrCat("takes list, load, evict, pin or unpin, not '", verb, "'"));
  }
  if (words.size() == 2) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(verb, " takes the name of one adapter"));
}

}  // namespace

CommandShape AdaptersShape() {
  AdaptersOptions options;
  return {"adapters",
          "what lies below --adapters, and what is wrong with it",
          WithoutTargets(AdaptersOptionGroups(options)),
          {"list", "load", "evict", "pin", "unpin"}};
}

ExitCode RunAdapters(const std::vector<std::string>& arguments) {
  AdaptersOptions options;
  const std::vector<OptionGroup> groups = AdaptersOptionGroups(options);
  const auto words = ParseCommand(groups, arguments, options.connection);
  if (options.connection.help) {
    std::cout << kAdaptersIntroduction << DescribeOptions(groups);
    return ExitCode::kOk;
  }
  absl::Status right = words.status();
  if (right.ok()) right = CheckVerbs(*words);
  if (!right.ok()) return UsageError(right, "latent adapters");
  BlockStopSignals();
  UseAdminSocket(AdminSocketFolder(), options.connection);
  AdminClient client(options.connection.server, options.connection.tls, options.connection.api_key);
  Interrupt interrupt([&client] { client.Cancel(); });
  v1::ListAdaptersResponse response;
  const grpc::Status status = AskOf(client, *words, response);
  if (interrupt.happened()) return ExitCode::kInterrupted;
  if (!status.ok()) return CallFailed(status, options.connection, /*connected=*/false);
  if (options.json) return PrintJson(response);
  PrintAdapters(response);
  return ExitCode::kOk;
}

}  // namespace latentd::client
