// latent completion
#include <iostream>

#include "client/commands/command_options.h"
#include "client/commands/commands.h"
#include "client/commands/completion.h"
#include "client/words/suggestions.h"

namespace latentd::client {
namespace {

constexpr char kIntroduction[] =
    R"(latent completion SHELL prints what lets a shell complete commands, options and their values.

  source <(latent completion bash)       in ~/.bashrc
  source <(latent completion zsh)        in ~/.zshrc, behind compinit
  latent completion fish | source        in ~/.config/fish/config.fish
)";

constexpr char kCommand[] = "latent completion";

std::vector<std::string> Shells() { return {"bash", "zsh", "fish"}; }

std::vector<OptionGroup> AllOptions(Connection& connection) {
  return {{"Options", {HelpOption(connection)}}};
}

std::string ScriptFor(const std::string& shell) {
  std::vector<CommandShape> shapes;
  for (const Command& command : Commands()) shapes.push_back(command.shape());
  if (shell == "bash") return BashCompletion(shapes);
  return shell == "zsh" ? ZshCompletion(shapes) : FishCompletion(shapes);
}

}  // namespace

CommandShape CompletionShape() {
  Connection connection;
  return {"completion", "what lets a shell complete what is typed",
          WithoutTargets(AllOptions(connection)), Shells()};
}

ExitCode RunCompletion(const std::vector<std::string>& arguments) {
  Connection connection;
  const std::vector<OptionGroup> groups = AllOptions(connection);
  const auto words = ParseCommand(groups, arguments, connection);
  if (connection.help) {
    std::cout << kIntroduction << DescribeOptions(groups);
    return ExitCode::kOk;
  }
  if (!words.ok()) return UsageError(words.status(), kCommand);
  if (words->size() != 1) {
    return UsageError(absl::InvalidArgumentError("say for which shell: bash, zsh or fish"),
                      kCommand);
  }
  const absl::StatusOr<std::string> shell = ToChoice(words->front(), Shells());
  if (!shell.ok()) {
    return UsageError(absl::InvalidArgumentError("SHELL " + std::string(shell.status().message())),
                      kCommand);
  }
  std::cout << ScriptFor(*shell);
  return ExitCode::kOk;
}

}  // namespace latentd::client
