// latent generate
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <random>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/commands.h"
#include "client/interrupt.h"
#include "client/latent_client.h"
#include "client/option_words.h"
#include "client/picture_files.h"
#include "client/progress_display.h"
#include "client/request_options.h"
#include "client/tls_options.h"
#include "core/base/stop_signals.h"

namespace latentd::client {
namespace {

constexpr char kIntroduction[] =
    R"(latent generate PROMPT [options] asks a latentd for a picture.

  latent generate "a large yellow star on a purple background"
  latent generate "a red circle on a blue background" --seed 7 --output circle.png
  latent generate "a pink ring" --num-images-per-prompt 4 --guidance-scale 4
  latent generate "a red star" --image star.png --strength 0.7
  latent generate "a blue heart" --output - | display

Options are diffusers' parameters with dashes. The picture's file is named on standard output.
)";

constexpr char kExitCodes[] = R"(
Exit codes: 0 done, 1 failed, 2 wrong options, 3 no server there, 4 refused by the server, 130 Ctrl-C
)";

struct GenerateOptions {
  Connection connection;
  v1::GenerateRequest request;
  std::string output;
  v1::Format format = v1::FORMAT_UNSPECIFIED;
  bool force = false;
  bool quiet = false;
  absl::Duration timeout = absl::InfiniteDuration();
  RetryPolicy retries;
};

absl::Status SetFormat(GenerateOptions& options, const std::string& name) {
  options.format = FormatOf("picture." + name);
  return options.format == v1::FORMAT_UNSPECIFIED
             ? absl::InvalidArgumentError("must be png, jpeg, webp, raw or latent")
             : absl::OkStatus();
}

OptionGroup OutputOptions(GenerateOptions& options) {
  const auto set_quality = [&options](const std::string& text) {
    int quality = 0;
    if (!absl::SimpleAtoi(text, &quality)) return absl::InvalidArgumentError("must be 1 to 100");
    options.request.mutable_output()->set_quality(quality);
    return absl::OkStatus();
  };
  const auto set_embed = [&options](const std::string& text) {
    if (text != "true" && text != "false") return absl::InvalidArgumentError("is true or false");
    options.request.mutable_output()->set_embed_parameters(text == "true");
    return absl::OkStatus();
  };
  return {
      "Output",
      {{"output", "FILE",
        "default latent-SEED.png; several pictures get -1, -2, ...;\n"
        "- is standard output",
        SetString(options.output)},
       {"force", "", "overwrite files", SetSwitch(options.force)},
       {"format", "NAME",
        "png, jpeg, webp, raw, or latent: a safetensors file, before the VAE\n"
        "(default: by FILE's name, else png)",
        [&options](const std::string& name) { return SetFormat(options, name); }},
       {"quality", "N", "of JPEG and WebP, 1 to 100 (default 90)", set_quality},
       {"embed-parameters", "", "say in a PNG what made it (default; =false does not)", set_embed},
       {"quiet", "", "no progress", SetSwitch(options.quiet)}}};
}

OptionGroup ConnectionOptions(GenerateOptions& options) {
  const auto set_retries = [&options](const std::string& text) {
    int retries = 0;
    if (!absl::SimpleAtoi(text, &retries) || retries < 0) {
      return absl::InvalidArgumentError("must be 0 or more");
    }
    options.retries.retries = retries;
    return absl::OkStatus();
  };
  return {"Connection",
          {ServerOption(options.connection),
           {"timeout", "TIME", "give up after this long, such as 90s; tries and pauses together",
            SetDuration(options.timeout)},
           {"retries", "N",
            absl::StrCat(
                "try so often again where that is safe: no picture has been received, and the\n"
                "server is full, stopping or not there (default ",
                RetryPolicy().retries, ")"),
            set_retries},
           HelpOption(options.connection)}};
}

std::vector<OptionGroup> AllOptions(GenerateOptions& options) {
  std::vector<OptionGroup> groups = RequestOptions(options.request);
  groups.push_back(OutputOptions(options));
  groups.push_back(ConnectionOptions(options));
  groups.push_back(TlsOptions(options.connection));
  return groups;
}

absl::Status SetPrompt(const std::vector<std::string>& words, GenerateOptions& options) {
  if (words.empty()) return absl::InvalidArgumentError("say what to draw: latent generate PROMPT");
  if (words.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("one PROMPT, please, not also '", words[1], "': put it between quotes"));
  }
  options.request.set_prompt(words[0]);
  return absl::OkStatus();
}

absl::Status ChooseFormat(GenerateOptions& options) {
  const bool named = !options.output.empty() && options.output != "-";
  if (options.format == v1::FORMAT_UNSPECIFIED && named) {
    options.format = FormatOf(options.output);
    if (options.format == v1::FORMAT_UNSPECIFIED && options.output.rfind("/dev/", 0) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--output ", options.output, ": end it in .png, .jpg, .webp or .rgb, or add --format"));
    }
  }
  if (options.format == v1::FORMAT_UNSPECIFIED) options.format = v1::FORMAT_PNG;
  options.request.mutable_output()->set_format(options.format);
  if (options.output == "-" && isatty(STDOUT_FILENO)) {
    return absl::InvalidArgumentError("--output -: standard output is a terminal; redirect it");
  }
  return absl::OkStatus();
}

int PictureCount(const v1::GenerateRequest& request) {
  return std::max({1, request.seeds_size(), request.num_images_per_prompt()});
}

std::optional<uint64_t> FirstSeed(const v1::GenerateRequest& request) {
  if (request.seeds_size() > 0) return request.seeds(0);
  return request.has_seed() ? std::optional(request.seed()) : std::nullopt;
}

// Of files that are named before a picture says its seed.
void ChooseSeed(GenerateOptions& options) {
  if (!options.request.has_previews() || !options.output.empty()) return;
  if (!FirstSeed(options.request)) options.request.set_seed(std::random_device()());
}

absl::Status CheckFiles(const GenerateOptions& options, PictureFiles& files) {
  const absl::Status writable = files.Check(FirstSeed(options.request));
  if (!writable.ok() || !options.request.has_previews()) return writable;
  return files.CheckPreviews();
}

DisplayStyle StyleOf(const GenerateOptions& options) {
  if (options.quiet) return DisplayStyle::kNone;
  return isatty(STDERR_FILENO) ? DisplayStyle::kBar : DisplayStyle::kLines;
}

// One request from its events to its files.
class Generation {
 public:
  Generation(const GenerateOptions& options, PictureFiles& files)
      : options_(options),
        files_(files),
        display_(std::cerr, StyleOf(options), PictureCount(options.request), &TerminalColumns) {}

  ExitCode Run() {
    BlockStopSignals();
    Client client(options_.connection.server, options_.retries, options_.connection.tls);
    Interrupt interrupt([&client] { client.Cancel(); });
    client_ = &client;
    const grpc::Status status =
        client.Generate(options_.request,
                        {.on_event = [this](const v1::GenerateEvent& event) { OnEvent(event); },
                         .on_image = [this](const v1::Image& image) { OnImage(image); },
                         .on_retry = [this](const Retry& retry) { OnRetry(retry); }},
                        Timeout());
    display_.Clear();
    if (interrupt.happened()) {
      std::cerr << "latent: cancelled\n";
      return ExitCode::kInterrupted;
    }
    if (!file_error_.ok()) {
      std::cerr << "latent: " << file_error_.message() << '\n';
      return ExitCode::kFailed;
    }
    if (!tls_problem_.empty()) {
      std::cerr << "latent: " << tls_problem_ << '\n';
      return ExitCode::kUnreachable;
    }
    return status.ok() ? ExitCode::kOk : CallFailed(status, options_.connection, connected_);
  }

 private:
  std::optional<std::chrono::milliseconds> Timeout() const {
    if (options_.timeout == absl::InfiniteDuration()) return std::nullopt;
    return absl::ToChronoMilliseconds(options_.timeout);
  }

  void OnEvent(const v1::GenerateEvent& event) {
    connected_ = true;
    display_.Show(event);
    if (event.has_preview()) OnPreview(event.preview());
    if (event.has_completed()) Summarize(event.completed());
  }

  void OnPreview(const v1::Preview& preview) {
    const absl::StatusOr<std::string> name = files_.WritePreview(preview);
    if (!name.ok()) return StopFor(name.status());
    const bool first = previewed_.insert(preview.image_index()).second;
    if (!first || options_.quiet) return;
    display_.Clear();
    std::cerr << "previews: " << *name << std::endl;
  }

  void StopFor(const absl::Status& file_error) {
    file_error_ = file_error;
    client_->Cancel();
  }

  void OnImage(const v1::Image& image) {
    absl::StatusOr<std::string> name = files_.Write(image);
    if (!name.ok()) return StopFor(name.status());
    display_.Clear();
    if (!name->empty()) std::cout << *name << std::endl;
    if (options_.quiet) return;
    std::cerr << absl::StrFormat("picture %d: %dx%d, seed %d\n", image.index() + 1,
                                 image.size().width(), image.size().height(), image.seed());
  }

  void OnRetry(const Retry& retry) {
    display_.Clear();
    // To gRPC a server that is not trusted is one that is not there; but no retry will mend that.
    const bool is_first = retry.number == 1 && !connected_;
    if (is_first) tls_problem_ = ExplainTls(retry.status, options_.connection);
    if (!tls_problem_.empty()) return client_->Cancel();
    if (options_.quiet) return;
    std::cerr << absl::StrFormat("latent: %s; trying again in %.1f s (%d of %d)\n",
                                 WithOptionNames(retry.status.error_message()),
                                 absl::ToDoubleSeconds(retry.pause), retry.number,
                                 options_.retries.retries);
  }

  void Summarize(const v1::Completed& completed) {
    display_.Clear();
    for (const std::string& warning : completed.warnings())
      std::cerr << "warning: " << WithOptionNames(warning) << '\n';
    if (options_.quiet) return;
    const auto& total = completed.timings().total();
    std::cerr << absl::StrFormat("%.1f s\n",
                                 static_cast<double>(total.seconds()) + total.nanos() / 1e9);
  }

  const GenerateOptions& options_;
  PictureFiles& files_;
  ProgressDisplay display_;
  Client* client_ = nullptr;
  absl::Status file_error_;
  std::string tls_problem_;  // empty: none
  bool connected_ = false;
  std::set<int> previewed_;  // pictures
};

}  // namespace

ExitCode RunGenerate(const std::vector<std::string>& arguments) {
  GenerateOptions options;
  const std::vector<OptionGroup> groups = AllOptions(options);
  const auto words = ParseCommand(groups, arguments, options.connection);
  if (options.connection.help) {
    std::cout << kIntroduction << DescribeOptions(groups) << kExitCodes;
    return ExitCode::kOk;
  }
  if (!words.ok()) return UsageError(words.status(), "latent generate");
  for (const absl::Status& status : {SetPrompt(*words, options), ChooseFormat(options)}) {
    if (!status.ok()) return UsageError(status, "latent generate");
  }
  ChooseSeed(options);
  PictureFiles files(options.output, ExtensionOf(options.format), PictureCount(options.request),
                     options.force ? Overwrite::kReplace : Overwrite::kNever);
  const absl::Status writable = CheckFiles(options, files);
  if (!writable.ok()) return UsageError(writable, "latent generate");
  return Generation(options, files).Run();
}

}  // namespace latentd::client
