// latent, the command-line client of latentd.
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <iostream>
#include <string>
#include <vector>

#include "client/commands.h"
#include "core/base/stop_signals.h"

namespace latentd::client {
namespace {

constexpr char kHelp[] = R"(latent asks a latentd server for pictures.

  latent generate PROMPT     draw: latent generate "a large yellow star on a purple background"
  latent capabilities        what the server has and which values it takes
  latent health              whether it serves; --wait 60s waits until it does

For operators, at the server's --admin-listen, which on its own machine need not be named:

  latent status              what it is doing, and which buckets are ready
  latent memory              what it holds
  latent graphs VERB         compiled graphs: list, show, warm, save, load, verify, evict, pin, export, import

`latent COMMAND --help` has the options of each. `latent --version` prints the version.

Exit codes: 0 done, 1 failed, 2 wrong options, 3 no server there, 4 refused by the server, 130 Ctrl-C
)";

int NoCommand(const std::string& problem) {
  std::cerr << "latent: " << problem << "\n\n" << kHelp;
  return static_cast<int>(ExitCode::kUsage);
}

struct Command {
  const char* name;
  ExitCode (*run)(const std::vector<std::string>& arguments);
};

constexpr Command kCommands[] = {
    {"generate", RunGenerate}, {"capabilities", RunCapabilities},
    {"health", RunHealth},     {"status", RunStatus},
    {"memory", RunMemory},     {"graphs", RunGraphs},
};

int Run(std::vector<std::string> arguments) {
  if (arguments.empty()) return NoCommand("say what to do");
  const std::string command = arguments.front();
  arguments.erase(arguments.begin());
  for (const Command& known : kCommands) {
    if (command == known.name) return static_cast<int>(known.run(arguments));
  }
  if (command == "--version") {
    std::cout << "latent " LATENTD_VERSION "\n";
    return 0;
  }
  if (command == "--help" || command == "-h" || command == "help") {
    std::cout << kHelp;
    return 0;
  }
  return NoCommand("there is no command '" + command + "'");
}

// The libraries' own messages: what matters in them is in the statuses.
void BeQuiet() {
  gpr_set_log_function([](gpr_log_func_args*) {});
  google::protobuf::SetLogHandler(nullptr);
}

}  // namespace
}  // namespace latentd::client

int main(int argc, char** argv) {
  latentd::EndAtStopSignals();
  latentd::client::BeQuiet();
  return latentd::client::Run(std::vector<std::string>(argv + 1, argv + argc));
}
