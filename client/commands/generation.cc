#include "client/commands/generation.h"

#include <unistd.h>

#include <iostream>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/commands/command_options.h"
#include "client/commands/interrupt.h"
#include "client/options/tls_options.h"
#include "client/output/json_output.h"
#include "client/output/progress_display.h"
#include "client/rpc/latent_client.h"
#include "client/words/option_words.h"
#include "core/base/process/stop_signals.h"
#include "core/base/text/text.h"

namespace latentd::client {
namespace {

DisplayStyle StyleOf(const GenerateOptions& options) {
  if (options.quiet) return DisplayStyle::kNone;
  return isatty(STDERR_FILENO) ? DisplayStyle::kBar : DisplayStyle::kLines;
}

// State that all prompts share. Signals are blocked.
struct Session {
  explicit Session(const GenerateOptions& options)
      : options(options),
        client(options.connection.server, options.retries, options.connection.tls,
               options.connection.api_key),
        interrupt([this] { client.Cancel(); }) {}

  const GenerateOptions& options;
  Client client;
  Interrupt interrupt;
  bool connected = false;  // the server has answered something
};

// One request from its events to its files.
class Generation {
 public:
  Generation(Session& session, const PromptWork& work)
      : session_(session),
        options_(session.options),
        work_(work),
        display_(std::cerr, StyleOf(session.options), work.files.pictures(), &TerminalColumns) {}

  ExitCode Run() {
    const grpc::Status status = session_.client.Generate(
        work_.request,
        {.on_event = [this](const v1::GenerateEvent& event) { OnEvent(event); },
         .on_image = [this](v1::Image image) { OnImage(std::move(image)); },
         .on_retry = [this](const Retry& retry) { OnRetry(retry); }},
        Timeout());
    display_.Clear();
    if (options_.json) PrintResult();
    if (session_.interrupt.happened()) {
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
    if (status.ok()) return ExitCode::kOk;
    return CallFailed(status, options_.connection, session_.connected);
  }

 private:
  std::optional<std::chrono::milliseconds> Timeout() const {
    if (options_.timeout == absl::InfiniteDuration()) return std::nullopt;
    return absl::ToChronoMilliseconds(options_.timeout);
  }

  void OnEvent(const v1::GenerateEvent& event) {
    session_.connected = true;
    display_.Show(event);
    if (event.has_preview()) OnPreview(event.preview());
    if (event.has_completed()) Summarize(event.completed());
  }

  void OnPreview(const v1::Preview& preview) {
    const absl::StatusOr<std::string> name = work_.files.WritePreview(preview);
    if (!name.ok()) return StopFor(name.status());
    const bool first = previewed_.insert(preview.image_index()).second;
    if (!first || options_.quiet) return;
    display_.Clear();
    std::cerr << "previews: " << *name << std::endl;
  }

  void StopFor(const absl::Status& file_error) {
    file_error_ = file_error;
    session_.client.Cancel();
  }

  void OnImage(v1::Image image) {
    absl::StatusOr<std::string> name = work_.files.Write(image);
    if (!name.ok()) return StopFor(name.status());
    display_.Clear();
    image.clear_data();
    if (options_.json) {
      images_.push_back(ImageJson(image, *name));
    } else if (!name->empty()) {
      std::cout << *name << std::endl;
    }
    if (options_.quiet) return;
    std::cerr << absl::StrFormat("picture %d: %dx%d, seed %d\n", image.index() + 1,
                                 image.size().width(), image.size().height(), image.seed());
  }

  // As the API has it, with the file instead of its bytes.
  static std::string ImageJson(const v1::Image& image, const std::string& file) {
    const std::string json = JsonLine(image);
    absl::string_view fields = absl::StripPrefix(json, "{");
    absl::ConsumeSuffix(&fields, ",\"data\":\"\"}");
    return absl::StrCat("{\"file\":", JsonString(file), ",", fields, "}");
  }

  void PrintResult() const {
    if (images_.empty()) return;
    std::cout << "{\"images\":[" << absl::StrJoin(images_, ",") << "]"
              << (completed_.empty() ? "" : absl::StrCat(",\"completed\":", completed_)) << "}"
              << std::endl;
  }

  void OnRetry(const Retry& retry) {
    display_.Clear();
    // To gRPC a server that is not trusted is one that is not there; but no retry will mend that.
    const bool is_first = retry.number == 1 && !session_.connected;
    if (is_first) tls_problem_ = ExplainTls(retry.status, options_.connection);
    if (!tls_problem_.empty()) return session_.client.Cancel();
    if (options_.quiet) return;
    std::cerr << absl::StrFormat("latent: %s; trying again in %.1f s (%d of %d)\n",
                                 WithOptionNames(retry.status.error_message()),
                                 absl::ToDoubleSeconds(retry.pause), retry.number,
                                 options_.retries.retries);
  }

  void Summarize(const v1::Completed& completed) {
    display_.Clear();
    if (options_.json) completed_ = JsonLine(completed);
    for (const std::string& warning : completed.warnings())
      std::cerr << "warning: " << WithOptionNames(warning) << '\n';
    if (options_.quiet) return;
    const auto& total = completed.timings().total();
    std::cerr << absl::StrFormat("%.1f s\n",
                                 static_cast<double>(total.seconds()) + total.nanos() / 1e9);
  }

  Session& session_;
  const GenerateOptions& options_;
  const PromptWork& work_;
  ProgressDisplay display_;
  absl::Status file_error_;
  std::string tls_problem_;          // empty: none
  std::set<int> previewed_;          // pictures
  std::vector<std::string> images_;  // as JSON
  std::string completed_;            // the same; empty: not yet
};

}  // namespace

ExitCode GenerateAll(const GenerateOptions& options, const std::vector<PromptWork>& work) {
  BlockStopSignals();
  Session session(options);
  for (size_t i = 0; i < work.size(); ++i) {
    const std::string which = absl::StrCat("prompt ", i + 1, " of ", work.size());
    if (work.size() > 1 && !options.quiet) {
      std::cerr << which << ": " << Excerpt(work[i].request.prompt()) << '\n';
    }
    const ExitCode code = Generation(session, work[i]).Run();
    if (code == ExitCode::kOk) continue;
    if (work.size() > 1) std::cerr << "latent: stopped at " << which << '\n';
    return code;
  }
  return ExitCode::kOk;
}

}  // namespace latentd::client
