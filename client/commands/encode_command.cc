// latent encode
#include <iostream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands/command_options.h"
#include "client/commands/commands.h"
#include "client/commands/interrupt.h"
#include "client/options/api_key.h"
#include "client/options/embeds_file.h"
#include "client/options/files.h"
#include "client/options/prompts.h"
#include "client/options/request_options.h"
#include "client/options/tls_options.h"
#include "client/rpc/latent_client.h"
#include "client/words/option_words.h"
#include "core/base/process/stop_signals.h"

namespace latentd::client {
namespace {

constexpr char kCommand[] = "latent encode";

constexpr char kAskWhatToEncode[] =
    "say what to encode: latent encode \"a red star\" -o FILE (- reads it from standard input)";

constexpr char kIntroduction[] =
    R"(latent encode PROMPT --output FILE writes what a model's text encoders make of a prompt: a safetensors file of embeddings,
as diffusers' encode_prompt gives them, which draws without the prompt.

  latent encode "a large yellow star" -o star.safetensors
  latent generate --prompt-embeds star.safetensors
)";

struct EncodeOptions {
  Connection connection;
  v1::EncodeRequest request;
  std::string output;
  bool force = false;
  absl::Duration timeout = absl::InfiniteDuration();
};

// Every field but the prompt has one.
OptionGroup FieldOptions(v1::EncodeRequest& request) {
  OptionGroup group = {"The prompt", {}};
  const auto& type = *v1::EncodeRequest::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const std::string& name = type.field(i)->name();
    if (name != "prompt") group.options.push_back(FieldOption(request, name));
  }
  return group;
}

std::vector<OptionGroup> AllOptions(EncodeOptions& options) {
  return {FieldOptions(options.request),
          {"Output",
           {WithLetter('o', {"output", "FILE", "the file to write; - is standard output",
                             SetString(options.output)}),
            {"force", "", "overwrite the file", SetSwitch(options.force)}}},
          {"Connection",
           {ServerOption(options.connection),
            ApiKeyOption(options.connection),
            {"timeout", "TIME", "give up after this long, such as 90s or 2m",
             SetDuration(options.timeout)},
            HelpOption(options.connection)}},
          TlsOptions(options.connection)};
}

absl::Status TakePrompt(const std::vector<std::string>& words, EncodeOptions& options) {
  if (words.size() > 1) {
    return absl::InvalidArgumentError("takes one prompt; put quotes around one of several words");
  }
  const auto prompts = ReadPrompts({.words = words, .ask = kAskWhatToEncode});
  if (!prompts.ok()) return prompts.status();
  options.request.set_prompt(prompts->front());
  if (options.output.empty())
    return absl::InvalidArgumentError("--output: say which file to write");
  return options.output == "-" ? absl::OkStatus()
                               : CheckWritable(options.output, options.force ? Overwrite::kReplace
                                                                             : Overwrite::kNever);
}

absl::Status Write(const v1::EncodeResponse& response, const EncodeOptions& options) {
  const std::string file = EmbedsFile(response);
  if (options.output == "-") return WriteStandardOutput(file);
  const auto overwrite = options.force ? Overwrite::kReplace : Overwrite::kNever;
  const absl::Status written = WriteFile(options.output, file, overwrite);
  if (written.ok()) std::cout << options.output << '\n';
  return written;
}

ExitCode Encode(const EncodeOptions& options) {
  BlockStopSignals();
  Client client(options.connection.server, {}, options.connection.tls, options.connection.api_key);
  Interrupt interrupt([&client] { client.Cancel(); });
  v1::EncodeResponse response;
  const grpc::Status status = client.Encode(options.request, options.timeout, response);
  if (interrupt.happened()) return ExitCode::kInterrupted;
  if (!status.ok()) return CallFailed(status, options.connection, /*connected=*/false);
  for (const std::string& warning : response.warnings()) {
    std::cerr << "warning: " << WithOptionNames(warning) << '\n';
  }
  const absl::Status written = Write(response, options);
  if (written.ok()) return ExitCode::kOk;
  std::cerr << "latent: " << written.message() << '\n';
  return ExitCode::kFailed;
}

}  // namespace

CommandShape EncodeShape() {
  EncodeOptions options;
  return {"encode", "write what a prompt is encoded to", WithoutTargets(AllOptions(options))};
}

ExitCode RunEncode(const std::vector<std::string>& arguments) {
  EncodeOptions options;
  const std::vector<OptionGroup> groups = AllOptions(options);
  const auto words = ParseCommand(groups, arguments, options.connection);
  if (options.connection.help) {
    std::cout << kIntroduction << DescribeOptions(groups);
    return ExitCode::kOk;
  }
  absl::Status right = words.status();
  if (right.ok()) right = TakePrompt(*words, options);
  if (!right.ok()) return UsageError(right, kCommand);
  return Encode(options);
}

}  // namespace latentd::client
