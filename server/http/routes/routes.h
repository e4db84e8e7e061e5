// Every path that is served.
#pragma once

#include <string>
#include <vector>

#include "core/engine/engine.h"
#include "latent/v1/image_generation.pb.h"
#include "server/http/calls/running_calls.h"
#include "server/http/own/own_answers.h"
#include "server/http/routes/router.h"
#include "server/http/videos/video_paths.h"
#include "server/process/lifetime/health.h"

namespace latentd::server::http {

struct RouteOptions {
  std::string version;
  latent::v1::GenerateRequest defaults = {};  // request/http_defaults.h
  bool has_page = true;                       // page/page.h
  AskClientMemory client_memory = nullptr;    // as of OwnAnswers
};

// The engine, the health, the calls, and what the videos refer to outlive the routes.
std::vector<Route> MakeRoutes(engine::Engine& engine, const process::Health& health,
                              const RunningCalls& running, const VideoPaths& videos,
                              const RouteOptions& options);

}  // namespace latentd::server::http
