#include "client/error_text.h"

#include <optional>
#include <sstream>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace latentd::client {
namespace {

// The first detail of a type in `grpc-status-details-bin`.
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

void AddFields(const google::rpc::BadRequest& bad_request,
               std::string (*field_spelling)(const std::string&), std::ostream& out) {
  for (const auto& violation : bad_request.field_violations()) {
    out << "\n  ";
    if (!violation.field().empty()) out << field_spelling(violation.field()) << ": ";
    out << violation.description();
  }
}

void AddRetry(const google::rpc::RetryInfo& retry, std::ostream& out) {
  const double seconds =
      static_cast<double>(retry.retry_delay().seconds()) + retry.retry_delay().nanos() / 1e9;
  out << "\ntry again in " << seconds << " s";
}

bool IsUnreachable(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE && ErrorReason(status).empty();
}

}  // namespace

std::string ErrorReason(const grpc::Status& status) {
  const auto info = FindDetail<google::rpc::ErrorInfo>(status);
  return info && info->domain() == "latentd" ? info->reason() : "";
}

std::string ErrorText(const grpc::Status& status, const std::string& server,
                      std::string (*field_spelling)(const std::string&)) {
  std::ostringstream out;
  const auto bad_request = FindDetail<google::rpc::BadRequest>(status);
  if (bad_request) {
    out << "the server refused the request:";
    AddFields(*bad_request, field_spelling, out);
  } else if (IsUnreachable(status)) {
    out << "no latentd answers at " << server << ": start one, or name another with --server\n("
        << status.error_message() << ")";
  } else if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    out << "not done in time: the request was given up";
  } else {
    out << status.error_message();
  }
  if (const auto retry = FindDetail<google::rpc::RetryInfo>(status)) AddRetry(*retry, out);
  return out.str();
}

ExitCode ExitCodeFor(const grpc::Status& status, bool connected) {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return ExitCode::kOk;
    case grpc::StatusCode::UNAVAILABLE:
      if (!IsUnreachable(status)) return ExitCode::kRefused;
      return connected ? ExitCode::kFailed : ExitCode::kUnreachable;
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::UNIMPLEMENTED:
      return ExitCode::kRefused;
    default:
      return ExitCode::kFailed;
  }
}

}  // namespace latentd::client
