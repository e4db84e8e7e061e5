// latent compare
#include <iostream>

#include "absl/strings/numbers.h"
#include "client/commands/command_options.h"
#include "client/commands/commands.h"
#include "client/commands/comparison.h"
#include "client/options/address.h"
#include "client/options/api_key.h"
#include "client/options/files.h"
#include "client/options/prompts.h"
#include "client/options/request_options.h"
#include "client/options/tls_options.h"
#include "core/base/errors/status_macros.h"

namespace latentd::client {
namespace {

constexpr char kCommand[] = "latent compare";
constexpr int kPictures = 4;

constexpr char kIntroduction[] =
    R"(latent compare A B PROMPT... [options] draws the same pictures on two servers and says how alike they are.

  latentd --base model.safetensors --listen 127.0.0.1:50051 &
  latentd --base model.safetensors --listen 127.0.0.1:50052 --precision fp8 &
  latent compare 127.0.0.1:50051 127.0.0.1:50052 "a lighthouse in a storm" --page fp8.html

Beside what the two differ by stand two yardsticks: the first server's pictures with two steps fewer, and with another seed.
SSIM is 1 and PSNR infinite for equal pictures. Seeds are 0, 1, 2, 3 unless --seed or --seeds says others.
)";

constexpr char kExitCodes[] = R"(
Exit codes: 0 done, 1 failed or below --fail-under, 2 wrong options, 3 no server there, 4 refused by a server, 130 Ctrl-C
)";

struct AllCompareOptions {
  CompareOptions compare;
  PromptSource prompts;
};

absl::Status SetLeast(const std::string& text, CompareOptions& options) {
  double least = 0;
  if (!absl::SimpleAtod(text, &least) || !(least >= -1 && least <= 1)) {
    return absl::InvalidArgumentError("must be an SSIM from -1 to 1");
  }
  options.fail_under = least;
  return absl::OkStatus();
}

OptionGroup ReportOptions(CompareOptions& options) {
  return {"Report",
          {{"page", "FILE", "an HTML file with the pictures side by side, the least alike first",
            SetString(options.page)},
           {"force", "", "overwrite the file", SetSwitch(options.force)},
           {"fail-under", "SSIM", "exit with 1 if a picture is less alike than this, such as 0.95",
            [&options](const std::string& text) { return SetLeast(text, options); }},
           JsonOption(options.json),
           WithLetter('q', {"quiet", "", "no progress", SetSwitch(options.quiet)})}};
}

std::vector<OptionGroup> AllOptions(AllCompareOptions& options) {
  CompareOptions& compare = options.compare;
  std::vector<OptionGroup> groups = RequestOptions(compare.request);
  groups.insert(groups.begin(), ReportOptions(compare));
  groups.push_back({"Prompts, instead of PROMPT",
                    {{"prompt-file", "FILE", "what this file says; - is standard input",
                      SetString(options.prompts.file)},
                     {"prompt-per-line", "", "each line of it is a prompt (blank ones are none)",
                      SetSwitch(options.prompts.per_line)}}});
  groups.push_back({"Connection, of both servers",
                    {ApiKeyOption(compare.connection),
                     {"timeout", "TIME", "give a call up after this long, such as 90s or 2m",
                      SetDuration(compare.timeout)},
                     HelpOption(compare.connection)}});
  groups.push_back(TlsOptions(compare.connection));
  return groups;
}

absl::Status TakeServers(const std::vector<std::string>& words, AllCompareOptions& options) {
  if (words.size() < 2) {
    return absl::InvalidArgumentError("say which servers: latent compare A B \"a red star\"");
  }
  for (size_t i : {0, 1}) RETURN_IF_ERROR(CheckAddress(words[i]));
  options.compare.server_a = words[0];
  options.compare.server_b = words[1];
  options.prompts.words.assign(words.begin() + 2, words.end());
  return absl::OkStatus();
}

// As many as there are seeds, of which the first is 0.
void CompleteRequest(v1::GenerateRequest& request) {
  request.mutable_output()->set_format(v1::FORMAT_PNG);
  request.mutable_output()->set_embed_parameters(false);
  if (request.seeds_size() > 0) return;
  if (!request.has_seed()) request.set_seed(0);
  if (!request.has_num_images_per_prompt()) request.set_num_images_per_prompt(kPictures);
}

absl::Status CheckPage(const CompareOptions& options) {
  if (options.page.empty()) return absl::OkStatus();
  return CheckWritable(options.page, options.force ? Overwrite::kReplace : Overwrite::kNever);
}

}  // namespace

CommandShape CompareShape() {
  AllCompareOptions options;
  return {"compare", "say how alike two servers draw", WithoutTargets(AllOptions(options))};
}

ExitCode RunCompare(const std::vector<std::string>& arguments) {
  AllCompareOptions options;
  const std::vector<OptionGroup> groups = AllOptions(options);
  const auto words = ParseCommand(groups, arguments, options.compare.connection);
  if (options.compare.connection.help) {
    std::cout << kIntroduction << DescribeOptions(groups) << kExitCodes;
    return ExitCode::kOk;
  }
  absl::Status right = words.status();
  if (right.ok()) right = TakeServers(*words, options);
  if (right.ok()) right = CheckPage(options.compare);
  if (!right.ok()) return UsageError(right, kCommand);
  const auto prompts = ReadPrompts(options.prompts);
  if (!prompts.ok()) return UsageError(prompts.status(), kCommand);
  CompleteRequest(options.compare.request);
  return CompareServers(options.compare, *prompts);
}

}  // namespace latentd::client
