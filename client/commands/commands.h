// The commands of `latent`. Each command takes the arguments behind its name and returns the exit
// code.
#pragma once

#include <string>
#include <vector>

#include "client/commands/command_shape.h"
#include "client/output/error_text.h"

namespace latentd::client {

ExitCode RunGenerate(const std::vector<std::string>& arguments);
ExitCode RunCompare(const std::vector<std::string>& arguments);
ExitCode RunAnimate(const std::vector<std::string>& arguments);
ExitCode RunEncode(const std::vector<std::string>& arguments);
ExitCode RunCapabilities(const std::vector<std::string>& arguments);
ExitCode RunHealth(const std::vector<std::string>& arguments);
ExitCode RunStatus(const std::vector<std::string>& arguments);
ExitCode RunMemory(const std::vector<std::string>& arguments);
ExitCode RunModels(const std::vector<std::string>& arguments);
ExitCode RunAdapters(const std::vector<std::string>& arguments);
ExitCode RunGraphs(const std::vector<std::string>& arguments);
ExitCode RunCompletion(const std::vector<std::string>& arguments);

// Their options and words, for client/commands/completion.h.
CommandShape GenerateShape();
CommandShape CompareShape();
CommandShape AnimateShape();
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

}  // namespace latentd::client
