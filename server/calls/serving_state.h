// Whether the server takes requests, as an answer to those that come when it does not.
#pragma once

#include "absl/status/status.h"
#include "core/engine/engine.h"

namespace latentd::server::calls {

// OK in kReady and kDegraded, else UNAVAILABLE with reason LOADING or DRAINING and a retry delay.
absl::Status CheckServing(engine::State state);

// Whether there is a bucket that pictures can be drawn in, which is what health says.
bool CanServe(const engine::ServerStatus& status);

}  // namespace latentd::server::calls
