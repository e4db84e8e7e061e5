#include "server/calls/grpc_status.h"

#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/base/text/utf8.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/calls/serialize.h"

namespace latentd::server::calls {
namespace {

constexpr absl::string_view kDomain = "latentd";
// The message is sent twice, by itself and inside the details, and once more as violations.
constexpr size_t kMaxMessageBytes = 800;
constexpr size_t kMaxViolationsBytes = 2048;
constexpr size_t kMaxFieldBytes = 128;
constexpr size_t kMaxDescriptionBytes = 512;
constexpr size_t kMaxFactsBytes = 1024;
constexpr size_t kEntryBytes = 16;   // beside an entry's name and value
constexpr size_t kOtherBytes = 384;  // reason, domain, retry delay, and the names of their types

// UTF-8 of at most `limit` bytes, cut between characters. Long text is not copied: no byte becomes
// less of it, and a character has four.
std::string Cut(absl::string_view bytes, size_t limit) {
  std::string text = ToUtf8(bytes.substr(0, limit + 4));
  if (text.size() <= limit) return text;
  size_t end = limit - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return absl::StrCat(absl::string_view(text).substr(0, end), "...");
}

std::string AndMore(size_t count) { return absl::StrCat("and ", count, " more"); }

// "width: must be ...; steps: must be ...; and 3 more"
std::string JoinViolations(const std::vector<FieldViolation>& violations) {
  std::string message;
  for (size_t i = 0; i < violations.size(); ++i) {
    const std::string next = absl::StrCat(Cut(violations[i].field, kMaxFieldBytes), ": ",
                                          Cut(violations[i].description, kMaxDescriptionBytes));
    if (i > 0 && message.size() + next.size() > kMaxMessageBytes - 32) {
      return absl::StrCat(message, "; ", AndMore(violations.size() - i));
    }
    absl::StrAppend(&message, i > 0 ? "; " : "", next);
  }
  return message;
}

google::rpc::BadRequest ToBadRequest(const std::vector<FieldViolation>& violations) {
  google::rpc::BadRequest bad_request;
  size_t bytes = 0;
  for (size_t i = 0; i < violations.size(); ++i) {
    google::rpc::BadRequest::FieldViolation next;
    next.set_field(Cut(violations[i].field, kMaxFieldBytes));
    next.set_description(Cut(violations[i].description, kMaxDescriptionBytes));
    bytes += next.ByteSizeLong() + 4;
    if (bytes > kMaxViolationsBytes) {
      bad_request.add_field_violations()->set_description(AndMore(violations.size() - i));
      break;
    }
    *bad_request.add_field_violations() = std::move(next);
  }
  return bad_request;
}

google::rpc::RetryInfo ToRetryInfo(absl::Duration delay) {
  google::rpc::RetryInfo retry;
  absl::Duration rest;
  retry.mutable_retry_delay()->set_seconds(absl::IDivDuration(delay, absl::Seconds(1), &rest));
  retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return retry;
}

// Facts in at most `room` bytes; one that does not fit is left out.
google::rpc::ErrorInfo ToErrorInfo(const std::string& reason, const std::vector<ErrorFact>& facts,
                                   size_t room) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain(std::string(kDomain));
  for (const ErrorFact& fact : facts) {
    if (fact.value.size() > room) continue;
    const std::string value = ToUtf8(fact.value);
    const size_t bytes = fact.name.size() + value.size() + kEntryBytes;
    if (bytes > room) continue;
    room -= bytes;
    (*info.mutable_metadata())[fact.name] = value;
  }
  return info;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::vector<FieldViolation> violations = GetFieldViolations(status);
  const std::string reason = GetReason(status);
  const std::optional<absl::Duration> retry_delay = GetRetryDelay(status);

  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(violations.empty() ? Cut(status.message(), kMaxMessageBytes)
                                         : JoinViolations(violations));
  if (!violations.empty()) AddDetail(details, ToBadRequest(violations));
  if (!reason.empty()) {
    const size_t used = details.message().size() + details.ByteSizeLong() + kOtherBytes;
    const size_t room = std::min(kMaxStatusBytes - std::min(used, kMaxStatusBytes), kMaxFactsBytes);
    AddDetail(details, ToErrorInfo(Cut(reason, 63), GetFacts(status), room));
  }
  if (retry_delay) AddDetail(details, ToRetryInfo(*retry_delay));
  const std::string bytes = details.details().empty() ? "" : SerializeToBytes(details);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), details.message(), bytes);
}

grpc::Status FinalStatus(const absl::Status& status) noexcept {
  try {
    return ToGrpcStatus(status);
  } catch (const std::bad_alloc&) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "");
  }
}

}  // namespace latentd::server::calls
