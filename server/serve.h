// The life of the process: open the port, load, serve, drain.
#pragma once

#include <string>

#include "server/config/options.h"

namespace latentd::server {

// Returns the process's exit code: 0 after a signal, 1 when it could not start, 2 when the
// configuration is wrong, with the reason logged. Ends the process itself with 3 when a unit of
// work does not end with the drain. With exit_when_ready 0 only if all graphs are ready and in the
// cache; with exit_if_degraded 1 also if some bucket is not ready after the start. REQUIRES:
// BlockStopSignals and SetUpLogging were called, and no thread has been started.
int Serve(const config::Options& options, const std::string& version);

}  // namespace latentd::server
