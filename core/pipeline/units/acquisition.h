// Gets the executables that a request's images run.
//
// Thread-safe, but for the request, which is its caller's.
#pragma once

#include "absl/status/status.h"
#include "core/compiler/graph_store.h"
#include "core/pipeline/picture/picture.h"

namespace latentd::pipeline {

// Gives the request every executable of its plan's graphs, and of the dispensable ones those that
// are ready: previews' may be made so, where nothing has to be evicted for it. The graph store's
// error if one of the others cannot be had. For kReady no graph is built either.
absl::Status Acquire(compiler::Purpose purpose, Request& request);

}  // namespace latentd::pipeline
