// A unary call of an operator, whose work is done by a worker.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/admin_worker.h"

namespace latentd::server {

// The reactor of the call, which ends with what `work` returns; a call that was cancelled before
// its turn does no work. Leaves a log line with `method`, unless that is empty: what only reads
// leaves none. Thread-safe.
grpc::ServerUnaryReactor* RunOnWorker(AdminWorker& worker, grpc::CallbackServerContext& context,
                                      absl::string_view method, std::function<absl::Status()> work);

// One log line: which method, who called, and how it went.
void LogAdminCall(absl::string_view method, const std::string& peer, const absl::Status& status);

// The reactor of a call that has ended already.
grpc::ServerUnaryReactor* FinishNow(grpc::CallbackServerContext& context,
                                    const absl::Status& status);

}  // namespace latentd::server
