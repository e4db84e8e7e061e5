// latentd, the server. See help_text.cc for its flags.
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "core/base/errors/fatal.h"
#include "core/base/errors/status_macros.h"
#include "core/base/process/standard_streams.h"
#include "core/base/process/stop_signals.h"
#include "core/base/text/utf8.h"
#include "core/base/threads/thread_limit.h"
#include "core/engine/api/threads_needed.h"
#include "core/engine/engine.h"
#include "server/config/command_line.h"
#include "server/config/config_file.h"
#include "server/config/demo_checkpoint.h"
#include "server/config/help_text.h"
#include "server/config/hub_cache.h"
#include "server/config/options.h"
#include "server/process/lifetime/server_threads.h"
#include "server/process/lifetime/signals.h"
#include "server/process/logs/log.h"
#include "server/serve.h"

namespace latentd::server {
namespace {

constexpr int kUsageError = 2;
// Said by latentd to itself.
constexpr char kTryKernels[] = "--try-kernels";

int Fail(const absl::Status& status, int exit_code) {
  std::cerr << "latentd: " << ToUtf8(status.message()) << '\n';
  return exit_code;
}

// Defaults, then the file, then flags; then the default that depends on these.
absl::StatusOr<latent::v1::ServerConfig> Combine(const config::CommandLine& line) {
  latent::v1::ServerConfig config = config::DefaultConfig();
  if (!line.config_file.empty()) {
    ASSIGN_OR_RETURN(const latent::v1::ServerConfig file, config::ReadConfigFile(line.config_file));
    config.MergeFrom(file);
  }
  config.MergeFrom(line.flags);
  config::SetDefaultPrecision(config);
  return config;
}

absl::Status UseDemoCheckpoint(config::Options& options) {
  ASSIGN_OR_RETURN(const config::DemoCheckpoint demo,
                   config::FindDemoCheckpoint(config::ExecutableDirectory(), LATENTD_SOURCE_DIR));
  options.engine.base = demo.base;
  options.engine.refiner = demo.refiner;
  return absl::OkStatus();
}

// Takes names of the Hub's models to where its tools have downloaded them.
absl::Status FindCheckpoints(config::Options& options) {
  const std::string cache =
      config::HubCacheDirectory([](const char* name) -> const char* { return std::getenv(name); });
  std::vector<std::string*> paths = {&options.engine.base, &options.engine.refiner};
  std::vector<pipeline::ModelParts*> all = {&options.engine.base_parts,
                                            &options.engine.refiner_parts};
  for (pipeline::ModelSource& model : options.engine.models) {
    paths.push_back(&model.checkpoint);
    all.push_back(&model.parts);
  }
  for (pipeline::ModelParts* parts : all) {
    paths.push_back(&parts->components_from);
    for (auto& [component, path] : parts->components) paths.push_back(&path);
    for (pipeline::LoraFile& lora : parts->loras) paths.push_back(&lora.path);
  }
  for (std::string* path : paths) {
    ASSIGN_OR_RETURN(*path, config::FindCheckpoint(*path, cache));
  }
  return absl::OkStatus();
}

int Run(const std::vector<std::string>& arguments) {
  const absl::StatusOr<config::CommandLine> line = config::ParseCommandLine(arguments);
  if (!line.ok()) return Fail(line.status(), kUsageError);
  if (line->help) {
    std::cout << config::HelpText();
    return 0;
  }
  if (line->version) {
    std::cout << "latentd " LATENTD_VERSION "\n";
    return 0;
  }
  const absl::StatusOr<latent::v1::ServerConfig> config = Combine(*line);
  if (!config.ok()) return Fail(config.status(), kUsageError);
  absl::StatusOr<config::Options> options = config::ToOptions(*config);
  if (!options.ok()) return Fail(options.status(), kUsageError);
  if (line->print_config) {
    std::cout << config::PrintConfig(*config);
    return 0;
  }
  const bool names_none = options->engine.base.empty() && options->engine.models.empty();
  const absl::Status found = names_none ? UseDemoCheckpoint(*options) : FindCheckpoints(*options);
  if (!found.ok()) return Fail(found, 1);
  options->engine.trial_command = {"/proc/self/exe", kTryKernels};
  options->exit_when_ready = line->exit_when_ready;
  options->exit_if_degraded = line->exit_if_degraded;
  process::IgnoreWriteSignals();
  BlockStopSignals();
  SetFatalLog([](absl::string_view message) {
    process::Log(latent::v1::ERROR, message);
    process::FlushLog();
  });
  process::SetUpLogging(options->log_format, options->log_level);
  const absl::Status threads =
      CheckThreads(engine::ThreadsNeeded(options->engine) + process::ServerThreadsNeeded());
  if (!threads.ok()) {
    process::Log(latent::v1::ERROR, std::string(threads.message()));
    process::EndAfterLastLine(1);
  }
  return Serve(*options, LATENTD_VERSION, &engine::Engine::Create);
}

}  // namespace
}  // namespace latentd::server

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == latentd::server::kTryKernels) {
    return latentd::engine::TryKernels(std::atoi(argv[2]));
  }
  latentd::EndAtStopSignals();
  latentd::ExplainTerminate();
  latentd::ExplainExit();
  const int ended = latentd::server::Run(std::vector<std::string>(argv + 1, argv + argc));
  return latentd::FinishOutput("latentd", ended);
}
