#include "client/commands/comparison.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/commands/command_options.h"
#include "client/commands/interrupt.h"
#include "client/options/files.h"
#include "client/output/comparison_report.h"
#include "client/rpc/latent_client.h"
#include "client/words/option_words.h"
#include "core/base/errors/status_macros.h"
#include "core/base/process/stop_signals.h"
#include "core/base/text/text.h"
#include "core/image/decode.h"
#include "core/image/pixels/similarity.h"

namespace latentd::client {
namespace {

// The second yardstick: a change that users make without a thought.
constexpr int kFewerSteps = 2;

struct Picture {
  std::string file;
  image::Image pixels;
  uint64_t seed = 0;
  std::map<int, image::Image> previews;  // by step
};

// The answer to one request.
struct Drawn {
  std::map<int, Picture> pictures;  // by their index
  int steps = 0;
};

struct Side {
  Side(const CompareOptions& options, const std::string& server)
      : connection(options.connection),
        client(server, {}, options.connection.tls, options.connection.api_key) {
    connection.server = server;
  }

  Connection connection;
  Client client;
  bool connected = false;  // the server has answered something
};

absl::Status AddPreview(const v1::Preview& preview, Drawn& drawn) {
  ASSIGN_OR_RETURN(image::Image pixels, image::Decode(preview.data()));
  drawn.pictures[preview.image_index()].previews[preview.step()] = std::move(pixels);
  return absl::OkStatus();
}

absl::Status AddImage(v1::Image image, Drawn& drawn) {
  Picture& picture = drawn.pictures[image.index()];
  ASSIGN_OR_RETURN(picture.pixels, image::Decode(image.data()));
  picture.seed = image.seed();
  picture.file = std::move(*image.mutable_data());
  return absl::OkStatus();
}

// Previews of small pictures are too small to compare, and have no line of the report.
absl::Status AddPreviews(const Picture& a, const Picture& b, ComparedPicture& compared) {
  for (const auto& [step, pixels] : a.previews) {
    const auto other = b.previews.find(step);
    if (other == b.previews.end()) continue;
    if (std::min(pixels.width, pixels.height) < image::kLeastSimilaritySide) continue;
    ASSIGN_OR_RETURN(compared.previews[step], Compare(pixels, other->second));
  }
  return absl::OkStatus();
}

// Pictures of one prompt: of both servers, and of the first with fewer steps if it drew them.
absl::Status AddPictures(const std::string& prompt, Drawn a, Drawn b, const Drawn& fewer,
                         Comparison& comparison) {
  if (a.pictures.size() != b.pictures.size()) {
    return absl::InternalError("the servers drew different numbers of pictures");
  }
  for (auto one = a.pictures.begin(); one != a.pictures.end(); ++one) {
    const int index = one->first;
    Picture &first = one->second, &second = b.pictures[index];
    ComparedPicture& compared = comparison.pictures.emplace_back();
    compared.prompt = prompt;
    compared.seed = first.seed;
    ASSIGN_OR_RETURN(compared.similarity, Compare(first.pixels, second.pixels));
    if (const auto found = fewer.pictures.find(index); found != fewer.pictures.end()) {
      ASSIGN_OR_RETURN(compared.fewer_steps, Compare(first.pixels, found->second.pixels));
    }
    if (a.pictures.size() > 1) {
      const auto next = std::next(one) == a.pictures.end() ? a.pictures.begin() : std::next(one);
      ASSIGN_OR_RETURN(compared.other_seed, Compare(first.pixels, next->second.pixels));
    }
    RETURN_IF_ERROR(AddPreviews(first, second, compared));
    compared.file_a = std::move(first.file);
    compared.file_b = std::move(second.file);
  }
  return absl::OkStatus();
}

class Comparer {
 public:
  explicit Comparer(const CompareOptions& options)
      : options_(options),
        a_(options, options.server_a),
        b_(options, options.server_b),
        interrupt_([this] {
          a_.client.Cancel();
          b_.client.Cancel();
        }) {
    comparison_.server_a = options.server_a;
    comparison_.server_b = options.server_b;
  }

  ExitCode Run(const std::vector<std::string>& prompts) {
    for (size_t i = 0; i < prompts.size(); ++i) {
      if (!options_.quiet) {
        std::cerr << "prompt " << i + 1 << " of " << prompts.size() << ": " << Excerpt(prompts[i])
                  << '\n';
      }
      const ExitCode code = DrawPrompt(prompts[i]);
      if (code != ExitCode::kOk) return code;
    }
    return Report();
  }

 private:
  ExitCode DrawPrompt(const std::string& prompt) {
    v1::GenerateRequest request = options_.request;
    request.set_prompt(prompt);
    Drawn a, b, fewer;
    ExitCode code = Draw(request, a_, a);
    if (code == ExitCode::kOk) code = Draw(request, b_, b);
    const bool has_own_steps = request.timesteps_size() > 0 || request.sigmas_size() > 0;
    if (code == ExitCode::kOk && !has_own_steps && a.steps > kFewerSteps) {
      comparison_.steps = a.steps;
      comparison_.fewer_steps = a.steps - kFewerSteps;
      request.set_num_inference_steps(comparison_.fewer_steps);
      request.clear_previews();
      code = Draw(request, a_, fewer);
    }
    if (code != ExitCode::kOk) return code;
    return CodeOf(AddPictures(prompt, std::move(a), std::move(b), fewer, comparison_));
  }

  ExitCode Draw(const v1::GenerateRequest& request, Side& side, Drawn& drawn) {
    absl::Status unreadable;
    const grpc::Status status = side.client.Generate(
        request,
        {.on_event =
             [&](const v1::GenerateEvent& event) {
               side.connected = true;
               if (event.has_preview()) unreadable.Update(AddPreview(event.preview(), drawn));
               if (event.has_completed()) OnCompleted(event.completed(), side, drawn);
             },
         .on_image =
             [&](v1::Image image) { unreadable.Update(AddImage(std::move(image), drawn)); }},
        Timeout());
    if (interrupt_.happened()) {
      std::cerr << "latent: cancelled\n";
      return ExitCode::kInterrupted;
    }
    if (!status.ok()) return CallFailed(status, side.connection, side.connected);
    return CodeOf(unreadable);
  }

  void OnCompleted(const v1::Completed& completed, const Side& side, Drawn& drawn) {
    drawn.steps = completed.parameters().num_inference_steps();
    for (const std::string& warning : completed.warnings()) {
      const std::string line = absl::StrCat(side.connection.server, ": ", WithOptionNames(warning));
      if (absl::c_linear_search(warned_, line)) continue;
      warned_.push_back(line);
      std::cerr << "warning: " << line << '\n';
    }
  }

  std::optional<std::chrono::milliseconds> Timeout() const {
    if (options_.timeout == absl::InfiniteDuration()) return std::nullopt;
    return absl::ToChronoMilliseconds(options_.timeout);
  }

  ExitCode Report() const {
    std::cout << (options_.json ? ComparisonJson(comparison_) + "\n" : ComparisonTable(comparison_))
              << std::flush;
    if (!options_.page.empty()) {
      const auto overwrite = options_.force ? Overwrite::kReplace : Overwrite::kNever;
      const ExitCode written =
          CodeOf(WriteFile(options_.page, ComparisonPage(comparison_), overwrite));
      if (written != ExitCode::kOk) return written;
    }
    return CodeOf(CheckLeast());
  }

  absl::Status CheckLeast() const {
    std::vector<double> ssims;
    for (const ComparedPicture& picture : comparison_.pictures) {
      ssims.push_back(picture.similarity.ssim);
    }
    const double worst = SpreadOf(ssims).worst;
    if (worst >= options_.fail_under.value_or(worst)) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("an SSIM is ", worst, ", below --fail-under ", *options_.fail_under));
  }

  static ExitCode CodeOf(const absl::Status& status) {
    if (status.ok()) return ExitCode::kOk;
    std::cerr << "latent: " << status.message() << '\n';
    return ExitCode::kFailed;
  }

  const CompareOptions& options_;
  Side a_, b_;
  Interrupt interrupt_;
  Comparison comparison_;
  std::vector<std::string> warned_;
};

}  // namespace

ExitCode CompareServers(const CompareOptions& options, const std::vector<std::string>& prompts) {
  BlockStopSignals();
  return Comparer(options).Run(prompts);
}

}  // namespace latentd::client
