// Statuses as a latentd sends them.
#pragma once

#include <grpcpp/support/status.h>

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace latentd::client {

template <typename... Details>
grpc::Status StatusWith(grpc::StatusCode code, const std::string& message,
                        const Details&... details) {
  google::rpc::Status all;
  all.set_code(code);
  all.set_message(message);
  (all.add_details()->PackFrom(details), ...);
  return grpc::Status(code, message, all.SerializeAsString());
}

inline grpc::Status FailedFor(grpc::StatusCode code, const std::string& reason) {
  google::rpc::ErrorInfo info;
  info.set_domain("latentd");
  info.set_reason(reason);
  return StatusWith(code, "failed", info);
}

inline grpc::Status Failed(grpc::StatusCode code,
                           std::optional<absl::Duration> retry_delay = std::nullopt) {
  if (!retry_delay) return grpc::Status(code, "failed");
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(*retry_delay % absl::Seconds(1))));
  retry.mutable_retry_delay()->set_seconds(*retry_delay / absl::Seconds(1));
  return StatusWith(code, "failed", retry);
}

// gRPC's message where no program listens, at a port and at a socket, and for a host that does not
// exist.
inline const std::string kRefused =
    "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to connect "
    "to "
    "remote host: Connection refused";
inline const std::string kNoSocket =
    "failed to connect to all addresses; last error: UNKNOWN: unix:/none: No such file or "
    "directory";
inline const std::string kNoHost =
    "DNS resolution failed for nohost:1: C-ares status is not ARES_SUCCESS qtype=A name=nohost "
    "is_balancer=0: Domain name not found";

}  // namespace latentd::client
