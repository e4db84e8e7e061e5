// The life of the process: open the port, load, serve, drain.
#pragma once

#include <string>

#include "server/options.h"

namespace latentd::server {

// Returns the process's exit code: 0 after a signal, 1 when it could not start, 2 when the
// configuration is wrong, with the reason logged. REQUIRES: BlockStopSignals and SetUpLogging were
// called, and no thread has been started.
int Serve(const Options& options, const std::string& version);

}  // namespace latentd::server
