// The commands of `latent`. Each command takes the arguments behind its name and returns the exit
// code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/arguments.h"
#include "client/channel.h"
#include "client/command_shape.h"
#include "client/error_text.h"

namespace latentd::client {

ExitCode RunGenerate(const std::vector<std::string>& arguments);
ExitCode RunEncode(const std::vector<std::string>& arguments);
ExitCode RunCapabilities(const std::vector<std::string>& arguments);
ExitCode RunHealth(const std::vector<std::string>& arguments);
ExitCode RunStatus(const std::vector<std::string>& arguments);
ExitCode RunMemory(const std::vector<std::string>& arguments);
ExitCode RunModels(const std::vector<std::string>& arguments);
ExitCode RunAdapters(const std::vector<std::string>& arguments);
ExitCode RunGraphs(const std::vector<std::string>& arguments);
ExitCode RunCompletion(const std::vector<std::string>& arguments);

// Their options and words, for client/completion.h.
CommandShape GenerateShape();
CommandShape EncodeShape();
CommandShape CapabilitiesShape();
CommandShape HealthShape();
CommandShape StatusShape();
CommandShape MemoryShape();
CommandShape ModelsShape();
CommandShape AdaptersShape();
CommandShape GraphsShape();
CommandShape CompletionShape();

struct Command {
  ExitCode (*run)(const std::vector<std::string>& arguments);
  CommandShape (*shape)();  // with the command's name
};

// All commands, in the order of --help.
const std::vector<Command>& Commands();

// Options that all of them have.
struct Connection {
  std::string server = "127.0.0.1:50051";
  std::optional<Tls> tls;  // none: plain text
  bool help = false;
};
Option ServerOption(Connection& connection);
// The same of operators' commands, whose default is another.
Option AdminServerOption(Connection& connection);
Option HelpOption(Connection& connection);
Option JsonOption(bool& json);

// Prints what is wrong and where help is.
ExitCode UsageError(const absl::Status& status, const std::string& command);

// The words among the arguments, when every option and the address are checked.
absl::StatusOr<std::vector<std::string>> ParseCommand(const std::vector<OptionGroup>& groups,
                                                      const std::vector<std::string>& arguments,
                                                      const Connection& connection);

// Prints what a failed call says. `connected`: whether the server had answered anything before.
ExitCode CallFailed(const grpc::Status& status, const Connection& connection, bool connected);

}  // namespace latentd::client
