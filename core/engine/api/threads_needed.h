// How many threads an engine has.
//
// Thread-safe: free functions without state.
#pragma once

#include "core/engine/api/config.h"

namespace latentd::engine {

// Threads that compute one thing together: as many CPUs as the process may use, or Config::threads
// where those are fewer.
int ComputingThreads(const Config& config);

// At most once the engine serves, and while it loads, with what its libraries start.
int ThreadsNeeded(const Config& config);

}  // namespace latentd::engine
