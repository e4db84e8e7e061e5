#include "client/commands/command_options.h"

#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/options/address.h"
#include "client/options/admin_address.h"
#include "client/options/api_key.h"
#include "client/options/request_options.h"
#include "client/options/tls_options.h"
#include "core/base/errors/status_macros.h"

namespace latentd::client {

Option ServerOption(Connection& connection) {
  return {"server", "ADDRESS", "HOST:PORT or unix:PATH (default 127.0.0.1:50051)",
          SetAddress(connection.server)};
}

Option AdminServerOption(Connection& connection) {
  connection.server = DefaultAdminServer();
  return {"server", "ADDRESS",
          "HOST:PORT or unix:PATH (default $LATENT_ADMIN, else\n"
          "127.0.0.1:50051); HOST:PORT of this machine is called at its\n"
          "socket for operators, where it has one",
          SetAddress(connection.server)};
}

Option HelpOption(Connection& connection) {
  return WithLetter('h', {"help", "", "print this", SetSwitch(connection.help)});
}

Option JsonOption(bool& json) { return {"json", "", "as JSON", SetSwitch(json)}; }

std::function<absl::Status(const std::string&)> SetRetries(RetryPolicy& retries) {
  return [&retries](const std::string& text) {
    int count = 0;
    if (!absl::SimpleAtoi(text, &count) || count < 0) {
      return absl::InvalidArgumentError("must be 0 or more");
    }
    retries.retries = count;
    return absl::OkStatus();
  };
}

ExitCode UsageError(const absl::Status& status, const std::string& command) {
  std::cerr << "latent: " << status.message() << "\n(`" << command
            << " --help` lists the options)\n";
  return ExitCode::kUsage;
}

absl::StatusOr<std::vector<std::string>> ParseCommand(const std::vector<OptionGroup>& groups,
                                                      const std::vector<std::string>& arguments,
                                                      const Connection& connection) {
  ASSIGN_OR_RETURN(std::vector<std::string> words, ParseArguments(groups, arguments));
  // An option's has been checked; the one of the environment has not.
  const absl::Status address = CheckAddress(connection.server);
  if (!address.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("$LATENT_ADMIN: ", address.message()));
  }
  RETURN_IF_ERROR(CheckTls(connection));
  RETURN_IF_ERROR(CheckApiKey(connection));
  return words;
}

ExitCode CallFailed(const grpc::Status& status, const Connection& connection, bool connected) {
  const std::string tls = connected ? "" : ExplainTls(status, connection);
  const std::string key = ExplainApiKey(status, connection);
  std::cerr << "latent: "
            << (tls.empty() ? ErrorText(status, connection.server, &OptionSpelling) : tls) << '\n'
            << key << (key.empty() ? "" : "\n");
  return ExitCodeFor(status, connected);
}

}  // namespace latentd::client
