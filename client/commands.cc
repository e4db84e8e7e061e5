#include "client/commands.h"

#include <iostream>

#include "client/request_options.h"

namespace latentd::client {

Option ServerOption(Connection& connection) {
  return {"server", "ADDRESS", "HOST:PORT or unix:PATH (default 127.0.0.1:50051)",
          SetString(connection.server)};
}

Option HelpOption(Connection& connection) {
  return {"help", "", "print this", SetSwitch(connection.help)};
}

ExitCode UsageError(const absl::Status& status, const std::string& command) {
  std::cerr << "latent: " << status.message() << "\n(`" << command
            << " --help` lists the options)\n";
  return ExitCode::kUsage;
}

ExitCode CallFailed(const grpc::Status& status, const std::string& server, bool connected) {
  std::cerr << "latent: " << ErrorText(status, server, &OptionSpelling) << '\n';
  return ExitCodeFor(status, connected);
}

}  // namespace latentd::client
