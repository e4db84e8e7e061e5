#include "client/commands/generate_options.h"

#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/commands/command_options.h"
#include "client/options/api_key.h"
#include "client/options/request_options.h"
#include "client/options/tls_options.h"
#include "client/words/option_words.h"
#include "client/words/suggestions.h"
#include "core/base/errors/status_macros.h"

namespace latentd::client {
namespace {

namespace v1 = ::latent::v1;

absl::Status SetFormat(GenerateOptions& options, const std::string& name) {
  options.format = FormatOf("picture." + name);  // "jpg", too
  if (options.format != v1::FORMAT_UNSPECIFIED) return absl::OkStatus();
  return ToChoice(name, ChoicesOf(*v1::Format_descriptor())).status();
}

Option FormatOption(GenerateOptions& options) {
  Option option = {"format", "NAME",
                   "png, jpeg, webp, raw, or latent: a safetensors file, before the VAE\n"
                   "(default: by FILE's name, else png)",
                   [&options](const std::string& name) { return SetFormat(options, name); }};
  option.choices = ChoicesOf(*v1::Format_descriptor());
  return option;
}

OptionGroup PromptOptions(GenerateOptions& options) {
  return {"The prompt, instead of PROMPT",
          {{"prompt-file", "FILE", "what this file says; - is standard input, as PROMPT - is",
            SetString(options.prompts.file)},
           {"prompt-per-line", "", "each line of it is a prompt (blank ones are none)",
            SetSwitch(options.prompts.per_line)}}};
}

OptionGroup OutputOptions(GenerateOptions& options) {
  v1::Output& output = *options.request.mutable_output();
  return {"Output",
          {WithLetter('o', {"output", "FILE",
                            "a file, or a folder that is there (default latent-SEED.png); several\n"
                            "pictures get -1, -2, ...; - is standard output",
                            SetString(options.output)}),
           {"force", "", "overwrite files", SetSwitch(options.force)},
           FormatOption(options),
           FieldOption(output, "quality"),
           FieldOption(output, "embed_parameters"),
           {"json", "",
            "a line of JSON for each prompt instead of the files' names: \"images\",\n"
            "each with its \"file\", and \"completed\", as the API has them",
            SetSwitch(options.json)},
           WithLetter('q', {"quiet", "", "no progress", SetSwitch(options.quiet)})}};
}

OptionGroup ConnectionOptions(GenerateOptions& options) {
  return {"Connection",
          {ServerOption(options.connection),
           ApiKeyOption(options.connection),
           {"timeout", "TIME",
            "give a prompt up after this long, such as 90s or 2m; tries and pauses\ntogether",
            SetDuration(options.timeout)},
           {"retries", "N",
            absl::StrCat(
                "try so often again where that is safe: no picture has been received, and the\n"
                "server is full, stopping or went away (default ",
                RetryPolicy().retries, ")"),
            SetRetries(options.retries)},
           HelpOption(options.connection)}};
}

int PictureCount(const v1::GenerateRequest& request) {
  return std::max({1, request.seeds_size(), request.num_images_per_prompt()});
}

v1::GenerateRequest RequestOf(const GenerateOptions& options, const std::string& prompt) {
  v1::GenerateRequest request = options.request;
  request.set_prompt(prompt);
  if (!request.has_seed() && request.seeds().empty()) request.set_seed(std::random_device()());
  return request;
}

absl::Status CheckFiles(const PictureFiles& files, const v1::GenerateRequest& request) {
  RETURN_IF_ERROR(files.Check());
  return request.has_previews() ? files.CheckPreviews() : absl::OkStatus();
}

}  // namespace

std::vector<OptionGroup> GenerateOptionGroups(GenerateOptions& options) {
  std::vector<OptionGroup> groups = RequestOptions(options.request);
  groups.insert(groups.begin(), PromptOptions(options));
  groups.push_back(OutputOptions(options));
  groups.push_back(ConnectionOptions(options));
  groups.push_back(TlsOptions(options.connection));
  return groups;
}

absl::Status ChooseFormat(GenerateOptions& options) {
  const bool is_file =
      !options.output.empty() && options.output != "-" && !IsFolder(options.output);
  if (options.format == v1::FORMAT_UNSPECIFIED && is_file) {
    options.format = FormatOf(options.output);
    if (options.format == v1::FORMAT_UNSPECIFIED && !absl::StartsWith(options.output, "/dev/")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--output ", options.output,
          ": end it in .png, .jpg, .webp or .rgb, or add --format; a folder has to be there"));
    }
  }
  if (options.format == v1::FORMAT_UNSPECIFIED) options.format = v1::FORMAT_PNG;
  options.request.mutable_output()->set_format(options.format);
  if (options.output != "-") return absl::OkStatus();
  if (options.json) return absl::InvalidArgumentError("--json: not with --output -");
  return isatty(STDOUT_FILENO)
             ? absl::InvalidArgumentError("--output -: standard output is a terminal; redirect it")
             : absl::OkStatus();
}

absl::StatusOr<std::vector<PromptWork>> PlanWork(const GenerateOptions& options,
                                                 const std::vector<std::string>& prompts) {
  const Overwrite overwrite = options.force ? Overwrite::kReplace : Overwrite::kNever;
  const int pictures = PictureCount(options.request);
  PictureNames names = {.output = options.output,
                        .extension = ExtensionOf(options.format),
                        .pictures = pictures,
                        .total = pictures * static_cast<int>(prompts.size())};
  std::vector<PromptWork> work;
  for (const std::string& prompt : prompts) {
    v1::GenerateRequest request = RequestOf(options, prompt);
    names.seed = request.seeds().empty() ? request.seed() : request.seeds(0);
    PictureFiles files(names, overwrite);
    RETURN_IF_ERROR(CheckFiles(files, request));
    work.push_back({std::move(request), std::move(files)});
    names.before += pictures;
  }
  return work;
}

}  // namespace latentd::client
