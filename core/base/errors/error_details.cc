#include "core/base/errors/error_details.h"

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace latentd {
namespace {

constexpr absl::string_view kViolations = "latentd/field-violations";
constexpr absl::string_view kReason = "latentd/reason";
constexpr absl::string_view kRetryMillis = "latentd/retry-milliseconds";

absl::Status WithPayload(absl::Status status, absl::string_view url, absl::string_view value) {
  status.SetPayload(url, absl::Cord(value));
  return status;
}

// Violations travel as lines of "field TAB description", both C-escaped so that neither holds a tab
// or a newline.
std::string Encode(const FieldViolation& violation) {
  return absl::StrCat(absl::CEscape(violation.field), "\t", absl::CEscape(violation.description));
}

FieldViolation Decode(absl::string_view line) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(line, absl::MaxSplits('\t', 1));
  FieldViolation violation;
  absl::CUnescape(parts.first, &violation.field);
  absl::CUnescape(parts.second, &violation.description);
  return violation;
}

}  // namespace

absl::Status InvalidFields(const std::vector<FieldViolation>& violations) {
  const std::string message =
      absl::StrJoin(violations, "; ", [](std::string* out, const FieldViolation& violation) {
        absl::StrAppend(out, violation.field, ": ", violation.description);
      });
  const std::string lines = absl::StrJoin(
      violations, "\n",
      [](std::string* out, const FieldViolation& violation) { out->append(Encode(violation)); });
  return WithPayload(absl::InvalidArgumentError(message), kViolations, lines);
}

std::vector<FieldViolation> GetFieldViolations(const absl::Status& status) {
  std::vector<FieldViolation> violations;
  if (const auto payload = status.GetPayload(kViolations)) {
    const std::string lines(*payload);
    for (absl::string_view line : absl::StrSplit(lines, '\n')) violations.push_back(Decode(line));
  }
  return violations;
}

absl::Status WithReason(absl::Status status, absl::string_view reason) {
  return WithPayload(std::move(status), kReason, reason);
}

std::string GetReason(const absl::Status& status) {
  const auto payload = status.GetPayload(kReason);
  return payload ? std::string(*payload) : std::string();
}

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  return WithPayload(std::move(status), kRetryMillis,
                     absl::StrCat(absl::ToInt64Milliseconds(delay)));
}

std::optional<absl::Duration> GetRetryDelay(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryMillis);
  int64_t milliseconds = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &milliseconds)) return std::nullopt;
  return absl::Milliseconds(milliseconds);
}

}  // namespace latentd
