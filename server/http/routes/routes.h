// Every path that is served.
#pragma once

#include <vector>

#include "core/engine/engine.h"
#include "server/http/calls/running_calls.h"
#include "server/http/own/own_answers.h"
#include "server/http/routes/router.h"
#include "server/process/lifetime/health.h"

namespace latentd::server::http {

// The referents outlive the routes.
std::vector<Route> MakeRoutes(engine::Engine& engine, const process::Health& health,
                              const RunningCalls& running, const OwnAnswers::Options& own);

}  // namespace latentd::server::http
