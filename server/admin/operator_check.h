// Judgement of who calls a method of operators, where a port is not theirs alone.
#pragma once

#include <grpcpp/server_context.h>

#include <functional>

#include "absl/status/status.h"

namespace latentd::server::admin {

// OK: the caller is an operator. Never null. Thread-safe.
using OperatorCheck = std::function<absl::Status(const grpc::CallbackServerContext& context)>;

}  // namespace latentd::server::admin
