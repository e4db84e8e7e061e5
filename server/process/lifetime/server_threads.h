// How many threads the server starts beside the engine's.
//
// Thread-safe: free functions without state.
#pragma once

namespace latentd::server::process {

// The most threads of the server and gRPC while it serves, with all that flags can ask for. gRPC
// starts more where many calls or timers come at once, and does without where it gets none.
int ServerThreadsNeeded();

}  // namespace latentd::server::process
