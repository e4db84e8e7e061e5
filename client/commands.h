// What `latent` does. Each command takes the arguments behind its name and returns the exit code.
#pragma once

#include <string>
#include <vector>

#include "client/arguments.h"
#include "client/error_text.h"

namespace latentd::client {

ExitCode RunGenerate(const std::vector<std::string>& arguments);
ExitCode RunCapabilities(const std::vector<std::string>& arguments);
ExitCode RunHealth(const std::vector<std::string>& arguments);
ExitCode RunStatus(const std::vector<std::string>& arguments);
ExitCode RunMemory(const std::vector<std::string>& arguments);
ExitCode RunGraphs(const std::vector<std::string>& arguments);

// Options that all of them have.
struct Connection {
  std::string server = "127.0.0.1:50051";
  bool help = false;
};
Option ServerOption(Connection& connection);
Option HelpOption(Connection& connection);

// Prints what is wrong and where help is.
ExitCode UsageError(const absl::Status& status, const std::string& command);

// Prints what a failed call says.
ExitCode CallFailed(const grpc::Status& status, const std::string& server, bool connected);

}  // namespace latentd::client
