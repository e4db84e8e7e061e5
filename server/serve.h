// The life of the process: open the port, load, serve, drain.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "core/engine/api/config.h"
#include "core/engine/engine.h"
#include "server/config/options.h"

namespace latentd::server {

// As Engine::Create.
using MakeEngine = std::function<absl::StatusOr<std::unique_ptr<engine::Engine>>(
    engine::Config config, const Clock& clock)>;

// Returns the process's exit code: 0 after a signal, 1 when it could not start, 2 when the
// configuration is wrong, with the reason logged. Ends the process itself with 3 when a unit of
// work does not end with the drain, and with 4 when the device has failed, soon after callers and
// readers of health have been told. With exit_when_ready 0 only if all graphs are ready and in the
// cache; with exit_if_degraded 1 also if some bucket is not ready after the start. REQUIRES:
// BlockStopSignals and SetUpLogging were called, and no thread but the log's has been started. When
// it returns, the log is written, unless its reader has stopped reading.
int Serve(const config::Options& options, const std::string& version,
          const MakeEngine& make_engine);

}  // namespace latentd::server
