#include "server/generation/call_record.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/base/errors/error_details.h"
#include "core/base/text/text.h"
#include "server/process/logs/log.h"

namespace latentd::server::generation {
namespace {

double Seconds(absl::Duration duration) {
  return absl::ToInt64Milliseconds(std::max(duration, absl::ZeroDuration())) / 1000.0;
}

// Adds names, never values: a user may have typed those.
void AddReason(const absl::Status& status, process::LogFields& fields) {
  const std::string reason = GetReason(status);
  if (!reason.empty()) fields["reason"] = reason;
  const std::vector<FieldViolation> violations = GetFieldViolations(status);
  if (!violations.empty()) {
    fields["bad_fields"] = absl::StrJoin(
        violations, ",",
        [](std::string* out, const auto& violation) { out->append(violation.field); });
  }
  if (absl::IsInternal(status) || absl::IsUnknown(status)) {
    fields["error"] = std::string(status.message());
  }
}

}  // namespace

void CallRecord::Note(const engine::Event& event, absl::Time now) {
  if (const auto* begun = std::get_if<engine::Started>(&event)) {
    started = now;
    bucket = SizeText(begun->executed_size);
  } else if (const auto* progress = std::get_if<engine::Progress>(&event)) {
    steps = progress->total_steps;
  } else if (const auto* image = std::get_if<engine::Image>(&event)) {
    if (!image->bytes.empty()) size = SizeText(image->size);  // else it was let go
    images += image->count();
  }
}

void CallRecord::WriteLogLine(const absl::Status& status, absl::StatusCode code,
                              absl::Time now) const {
  const absl::Time begun = std::min(started, now);
  process::LogFields fields = {{"id", id},
                               {"method", method},
                               {"peer", peer},
                               {"size", size.empty() ? bucket : size},
                               {"steps", steps},
                               {"images", images},
                               {"queue_seconds", Seconds(begun - arrived)},
                               {"run_seconds", Seconds(now - begun)},
                               {"code", absl::StatusCodeToString(code)}};
  if (http_status != 0) {
    fields["transport"] = "http";
    fields["http"] = http_status;
  }
  if (!size.empty() && size != bucket) fields["bucket"] = bucket;
  if (!trace_id.empty()) fields["trace_id"] = trace_id;
  AddReason(status, fields);
  const bool fault = code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown;
  process::Log(fault ? latent::v1::ERROR : latent::v1::INFO, "request", fields);
}

std::string ReasonText(const absl::Status& status, absl::StatusCode code) {
  process::LogFields fields = process::LogFields::object();
  AddReason(status, fields);
  return process::FormatText(absl::StatusCodeToString(code), fields);
}

}  // namespace latentd::server::generation
