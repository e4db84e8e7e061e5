// A failed call's words beyond its code and message: google.rpc's details in
// `grpc-status-details-bin`.
#pragma once

#include <grpcpp/support/status.h>

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "google/rpc/error_details.pb.h"

namespace latentd::client {

// ErrorInfo's reason where the status is latentd's; else empty.
std::string ErrorReason(const grpc::Status& status);

// ErrorInfo's metadata of that name where the status is latentd's; else empty.
std::string ErrorFact(const grpc::Status& status, const std::string& name);

// When to try again, as the server sees it.
std::optional<absl::Duration> RetryDelay(const grpc::Status& status);

// The fields of the request that are wrong.
std::optional<google::rpc::BadRequest> BadFields(const grpc::Status& status);

// True where gRPC could not connect since no program listens at the address, or no host has that
// name: what no later try will mend by itself.
bool NothingListens(const grpc::Status& status);
bool IsUnknownHost(const grpc::Status& status);

}  // namespace latentd::client
