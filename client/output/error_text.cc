#include "client/output/error_text.h"

#include <sstream>

#include "client/rpc/error_details.h"
#include "client/words/option_words.h"

namespace latentd::client {
namespace {

void AddFields(const google::rpc::BadRequest& bad_request,
               std::string (*field_spelling)(const std::string&), std::ostream& out) {
  const auto& violations = bad_request.field_violations();
  for (int i = 0; i < violations.size(); ++i) {
    out << "\n  ";
    // Both sides of a size that is wrong say the same.
    for (; i + 1 < violations.size() &&
           violations[i].description() == violations[i + 1].description();
         ++i) {
      out << field_spelling(violations[i].field()) << ", ";
    }
    if (!violations[i].field().empty()) out << field_spelling(violations[i].field()) << ": ";
    out << WithOptionNames(violations[i].description());
  }
}

bool IsUnreachable(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE && ErrorReason(status).empty();
}

// True where gRPC itself refused it, unread: latentd's own refusals have a reason.
bool IsTooLarge(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED && ErrorReason(status).empty();
}

}  // namespace

std::string ErrorText(const grpc::Status& status, const std::string& server,
                      std::string (*field_spelling)(const std::string&)) {
  std::ostringstream out;
  const auto bad_request = BadFields(status);
  if (bad_request) {
    out << "the server refused the request:";
    AddFields(*bad_request, field_spelling, out);
  } else if (NothingListens(status)) {
    out << "nothing listens at " << server
        << ": start a server with `latentd`, or name another with --server\n"
        << "(`latent health --wait 10m` waits for one that is starting)";
  } else if (IsUnknownHost(status)) {
    out << "no host has the name in --server " << server;
  } else if (IsUnreachable(status)) {
    out << "no latentd answers at " << server << ": start one, or name another with --server\n("
        << status.error_message() << ")";
  } else if (IsTooLarge(status)) {
    out << "the request has more bytes than the server takes: send smaller images, or start latentd"
        << " with a larger --max-request-bytes\n(" << status.error_message() << ")";
  } else if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    out << "not done in time: the request was given up";
  } else if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    // gRPC itself says this, and without a word, where a port does not have the service.
    out << server << " does not serve this call: pictures are at --listen of latentd, what is for"
        << " operators at its --admin-listen (by default a socket of the user who runs it), and"
        << " --health-listen has health alone";
    if (!status.error_message().empty()) out << "\n(" << status.error_message() << ")";
  } else {
    out << WithOptionNames(status.error_message());
    // The message names all buckets of a size that is none.
    const std::string buckets = ErrorFact(status, "buckets");
    if (!buckets.empty()) out << "\nready are " << buckets;
  }
  if (const auto delay = RetryDelay(status)) {
    out << "\ntry again in " << absl::ToDoubleSeconds(*delay) << " s";
  }
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
    case grpc::StatusCode::ALREADY_EXISTS:
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
