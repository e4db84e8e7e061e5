// latent generate
#include <iostream>

#include "client/commands/command_options.h"
#include "client/commands/commands.h"
#include "client/commands/generate_options.h"
#include "client/commands/generation.h"

namespace latentd::client {
namespace {

constexpr char kCommand[] = "latent generate";

constexpr char kIntroduction[] =
    R"(latent generate PROMPT... [options] asks a latentd for a picture of each PROMPT.

  latent generate "a large yellow star on a purple background"
  latent generate "a red circle on a blue background" -s 7 -o circle.png
  latent generate "a pink ring" -n 4 --guidance-scale 4
  latent generate "a red star" --image star.png --strength 0.7
  latent generate "a blue heart" -o - | display
  latent generate "a red star" "a blue heart" -o pictures/
  latent generate --prompt-file prompts.txt --prompt-per-line --json
  fortune | latent generate -

Options are diffusers' parameters with dashes. The picture's file is named on standard output. Prompts are drawn one
after the other, up to the first that fails.
)";

constexpr char kExitCodes[] = R"(
Exit codes: 0 done, 1 failed, 2 wrong options, 3 no server there, 4 refused by the server, 130 Ctrl-C
)";

void WarnOfQuotes(const std::vector<std::string>& prompts) {
  if (!LookLikeOne(prompts)) return;
  std::cerr << "warning: these are " << prompts.size()
            << " prompts of one word each; put quotes around a prompt of several words\n";
}

}  // namespace

CommandShape GenerateShape() {
  GenerateOptions options;
  return {"generate", "draw", WithoutTargets(GenerateOptionGroups(options))};
}

ExitCode RunGenerate(const std::vector<std::string>& arguments) {
  GenerateOptions options;
  const std::vector<OptionGroup> groups = GenerateOptionGroups(options);
  const auto words = ParseCommand(groups, arguments, options.connection);
  if (options.connection.help) {
    std::cout << kIntroduction << DescribeOptions(groups) << kExitCodes;
    return ExitCode::kOk;
  }
  if (!words.ok()) return UsageError(words.status(), kCommand);
  options.prompts.words = *words;
  options.prompts.needed = !options.request.has_prompt_embeds();
  const absl::Status format = ChooseFormat(options);
  if (!format.ok()) return UsageError(format, kCommand);
  const auto prompts = ReadPrompts(options.prompts);
  if (!prompts.ok()) return UsageError(prompts.status(), kCommand);
  WarnOfQuotes(options.prompts.words);
  const auto work = PlanWork(options, *prompts);
  if (!work.ok()) return UsageError(work.status(), kCommand);
  return GenerateAll(options, *work);
}

}  // namespace latentd::client
