// The one place where a status of ours becomes a status of gRPC.
//
// The code is the same number. Field violations, reason, facts and retry delay
// (core/base/errors/error_details.h, error_facts.h) become google.rpc details in
// `grpc-status-details-bin`: BadRequest, ErrorInfo{reason, domain "latentd", metadata} and
// RetryInfo. Message and details together stay under 4 KiB, since they travel as headers and
// clients give up at 8: of bad fields that do not fit the number is told ("and N more"), facts that
// do not fit are left out.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace latentd::server::calls {

inline constexpr size_t kMaxStatusBytes = 4096;

// Thread-safe; a free function without state.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The same for the end of a call, which has to come: where there is no memory for it,
// RESOURCE_EXHAUSTED without a message.
grpc::Status FinalStatus(const absl::Status& status) noexcept;

}  // namespace latentd::server::calls
