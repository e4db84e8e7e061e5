// latent models
#include <iostream>

#include "absl/strings/ascii.h"
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

constexpr char kModelsIntroduction[] =
    R"(latent models lists the models that requests can name, and says which of them are on a device.

  latent models
  latent models load NAME         now, rather than for the next request
  latent models evict NAME        out of memory; a request loads it again
  latent models pin NAME          never evicted to make room for others
  latent models unpin NAME
)";

struct ModelsOptions {
  Connection connection;
  bool json = false;
};

std::vector<OptionGroup> ModelsOptionGroups(ModelsOptions& options) {
  return {{"Options",
           {JsonOption(options.json), AdminServerOption(options.connection),
            ApiKeyOption(options.connection), HelpOption(options.connection)}},
          TlsOptions(options.connection)};
}

std::string WhereText(const v1::ModelStatus& model) {
  std::string residency =
      absl::AsciiStrToLower(v1::Residency_Name(model.residency()).substr(sizeof("RESIDENCY_") - 1));
  std::string where = model.loaded() ? "loaded" : "in its files";
  if (!model.devices().empty()) where = absl::StrCat("on ", absl::StrJoin(model.devices(), ", "));
  return absl::StrCat(where, " (", residency,
                      model.pinned() && residency != "pinned" ? ", pinned" : "", ")");
}

std::string LastUsedText(const v1::ModelStatus& model) {
  if (!model.has_last_used()) return "never";
  return AgoText(absl::FromUnixSeconds(model.last_used().seconds()), absl::Now());
}

void PrintModels(const v1::ListModelsResponse& response) {
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "FAMILY", "WHERE", "GRAPHS", "LAST USE", "CHECKPOINT"}};
  for (const v1::ModelStatus& model : response.models()) {
    rows.push_back({model.name(), model.family(), WhereText(model),
                    absl::StrCat(model.graphs_ready(), " of ", model.graphs_total()),
                    LastUsedText(model), model.checkpoint()});
  }
  std::cout << TableText(rows);
}

// The call of a verb; a changed model is a list of one.
grpc::Status Ask(AdminClient& client, const std::string& verb, const std::string& name,
                 v1::ListModelsResponse& response) {
  if (verb.empty()) return client.ListModels(response);
  v1::ModelStatus& model = *response.add_models();
  if (verb == "load") return client.LoadModel(name, model);
  if (verb == "evict") return client.EvictModel(name, model);
  return client.PinModel(name, verb == "pin", model);
}

absl::Status CheckWords(const std::vector<std::string>& words) {
  if (words.empty()) return absl::OkStatus();
  const std::string& verb = words.front();
  const bool known = verb == "load" || verb == "evict" || verb == "pin" || verb == "unpin";
  if (!known) {
    return absl::InvalidArgumentError(
        absl::StrCat("takes load, evict, pin or unpin, not '", verb, "'"));
  }
  if (words.size() == 2) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(verb, " takes the name of one model"));
}

}  // namespace

CommandShape ModelsShape() {
  ModelsOptions options;
  return {"models",
          "models that requests can name, and which are loaded",
          WithoutTargets(ModelsOptionGroups(options)),
          {"load", "evict", "pin", "unpin"}};
}

ExitCode RunModels(const std::vector<std::string>& arguments) {
  ModelsOptions options;
  const std::vector<OptionGroup> groups = ModelsOptionGroups(options);
  const auto words = ParseCommand(groups, arguments, options.connection);
  if (options.connection.help) {
    std::cout << kModelsIntroduction << DescribeOptions(groups);
    return ExitCode::kOk;
  }
  absl::Status right = words.status();
  if (right.ok()) right = CheckWords(*words);
  if (!right.ok()) return UsageError(right, "latent models");
  BlockStopSignals();
  UseAdminSocket(AdminSocketFolder(), options.connection);
  AdminClient client(options.connection.server, options.connection.tls, options.connection.api_key);
  Interrupt interrupt([&client] { client.Cancel(); });
  v1::ListModelsResponse response;
  const bool lists = words->empty();
  const grpc::Status status =
      lists ? Ask(client, "", "", response) : Ask(client, (*words)[0], (*words)[1], response);
  if (interrupt.happened()) return ExitCode::kInterrupted;
  if (!status.ok()) return CallFailed(status, options.connection, /*connected=*/false);
  if (options.json) return PrintJson(response);
  PrintModels(response);
  return ExitCode::kOk;
}

}  // namespace latentd::client
