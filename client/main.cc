// latent, the command-line client of latentd.
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "client/commands/commands.h"
#include "client/words/suggestions.h"
#include "core/base/process/standard_streams.h"
#include "core/base/process/stop_signals.h"
#include "core/base/text/text.h"

namespace latentd::client {
namespace {

constexpr char kHelp[] = R"(latent asks a latentd server for pictures.

  latent generate PROMPT     draw: latent generate "a large yellow star on a purple background"
  latent encode PROMPT       what a prompt is encoded to, as a file of embeddings
  latent animate IMAGE       a video that begins with an image
  latent compare A B PROMPT  how alike two servers draw, such as one in fp8 and one in bf16
  latent capabilities        what the server has and which values it takes
  latent health              whether it serves; --wait 60s waits until it does

For operators, at the server's --admin-listen, which on its own machine need not be named:

  latent status              what it is doing, and which buckets are ready
  latent memory              what it holds
  latent models              what it serves, and what is loaded; load, evict, pin
  latent adapters            what lies below --adapters, and what is wrong with it
  latent graphs VERB         compiled graphs: list, show, warm, save, load, verify, evict, pin, export, import

For shells:

  latent completion SHELL    completes what is typed: bash, zsh or fish

`latent help COMMAND` has the options of each, `latent --version` the version.

Exit codes: 0 done, 1 failed, 2 wrong options, 3 no server there, 4 refused by the server, 130 Ctrl-C
)";

int NoCommand(const std::string& problem) {
  std::cerr << "latent: " << problem << "\n(`latent --help` lists the commands)\n";
  return static_cast<int>(ExitCode::kUsage);
}

int UnknownCommand(const std::string& typed) {
  if (typed[0] == '-') {
    const std::string near =
        NearestOption(typed.substr(typed.rfind('-', 1) + 1), {"help", "version"});
    return NoCommand("options come behind a command, and not " + Excerpt(typed) + DidYouMean(near));
  }
  // A word with spaces is a prompt.
  if (typed.find(' ') != std::string::npos) {
    return NoCommand("say what to do" + DidYouMean("latent generate '" + Excerpt(typed) + "'"));
  }
  std::vector<std::string> names;
  for (const Command& command : Commands()) names.push_back(command.shape().name);
  return NoCommand("there is no command '" + Excerpt(typed) + "'" +
                   DidYouMean(NearestCommand(typed, names)));
}

int Run(std::vector<std::string> arguments);

// `latent help graphs list` is `latent graphs list --help`.
int Help(std::vector<std::string> command) {
  if (command.empty()) {
    std::cout << kHelp;
    return 0;
  }
  command.push_back("--help");
  return Run(std::move(command));
}

int Run(std::vector<std::string> arguments) {
  if (arguments.empty()) {
    std::cerr << kHelp;
    return static_cast<int>(ExitCode::kUsage);
  }
  const std::string name = arguments.front();
  arguments.erase(arguments.begin());
  for (const Command& command : Commands()) {
    if (name == command.shape().name) return static_cast<int>(command.run(arguments));
  }
  if (name == "--version" || name == "-V" || name == "version") {
    std::cout << "latent " LATENTD_VERSION "\n";
    return 0;
  }
  if (name == "--help" || name == "-h") return Help({});
  if (name == "help") return Help(std::move(arguments));
  return UnknownCommand(name);
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
  const int ended = latentd::client::Run(std::vector<std::string>(argv + 1, argv + argc));
  return latentd::FinishOutput("latent", ended);
}
