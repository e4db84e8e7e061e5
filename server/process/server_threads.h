// How many threads the server starts beside the engine's.
//
// Thread-safe: free functions without state.
#pragma once

namespace latentd::server::process {

// That it and gRPC have at most once it serves, with all that can be asked for by flags. gRPC
// starts more where many calls or timers come at once, and does without where it gets none.
int ServerThreadsNeeded();

}  // namespace latentd::server::process
