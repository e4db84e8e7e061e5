#include "client/rpc/error_details.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "google/rpc/status.pb.h"

namespace latentd::client {
namespace {

// The first detail of a type.
template <typename Detail>
std::optional<Detail> FindDetail(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return std::nullopt;
  for (const auto& any : details.details()) {
    Detail detail;
    if (any.Is<Detail>() && any.UnpackTo(&detail)) return detail;
  }
  return std::nullopt;
}

}  // namespace

std::string ErrorReason(const grpc::Status& status) {
  const auto info = FindDetail<google::rpc::ErrorInfo>(status);
  return info && info->domain() == "latentd" ? info->reason() : "";
}

std::string ErrorFact(const grpc::Status& status, const std::string& name) {
  const auto info = FindDetail<google::rpc::ErrorInfo>(status);
  if (!info || info->domain() != "latentd") return "";
  const auto fact = info->metadata().find(name);
  return fact == info->metadata().end() ? "" : fact->second;
}

std::optional<absl::Duration> RetryDelay(const grpc::Status& status) {
  const auto retry = FindDetail<google::rpc::RetryInfo>(status);
  if (!retry) return std::nullopt;
  return std::max(absl::ZeroDuration(), absl::Seconds(retry->retry_delay().seconds()) +
                                            absl::Nanoseconds(retry->retry_delay().nanos()));
}

std::optional<google::rpc::BadRequest> BadFields(const grpc::Status& status) {
  return FindDetail<google::rpc::BadRequest>(status);
}

bool NothingListens(const grpc::Status& status) {
  // gRPC's words on this side, and not those of a proxy that passes on what it met.
  constexpr absl::string_view kNotConnected = "failed to connect to all addresses";
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         absl::StartsWith(status.error_message(), kNotConnected) &&
         (absl::StrContains(status.error_message(), "Connection refused") ||
          absl::StrContains(status.error_message(), "No such file or directory"));
}

bool IsUnknownHost(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         absl::StartsWith(status.error_message(), "DNS resolution failed") &&
         absl::StrContains(status.error_message(), "Domain name not found");
}

}  // namespace latentd::client
