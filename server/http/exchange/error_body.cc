#include "server/http/exchange/error_body.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/base/text/utf8.h"
#include "server/http/exchange/http_status.h"

namespace latentd::server::http {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostMessageBytes = 4 << 10;
constexpr size_t kMostViolations = 32;

std::string Shortened(absl::string_view text) { return ToUtf8(text.substr(0, kMostMessageBytes)); }

// In the client's words.
std::vector<FieldViolation> ViolationsOf(const absl::Status& status, const FieldNames& names) {
  std::vector<FieldViolation> violations = GetFieldViolations(status);
  if (violations.size() > kMostViolations) violations.resize(kMostViolations);
  for (FieldViolation& violation : violations) {
    const auto name = names.find(violation.field);
    if (name != names.end()) violation.field = name->second;
  }
  return violations;
}

std::string MessageOf(const absl::Status& status, const std::vector<FieldViolation>& violations) {
  if (violations.empty()) return Shortened(status.message());
  std::string message;
  for (const FieldViolation& violation : violations) {
    absl::StrAppend(&message, message.empty() ? "" : "; ", violation.field, ": ",
                    violation.description);
  }
  return Shortened(message);
}

Json ToJson(const std::vector<FieldViolation>& violations) {
  Json list = Json::array();
  for (const FieldViolation& violation : violations) {
    list.push_back(
        {{"field", Shortened(violation.field)}, {"description", Shortened(violation.description)}});
  }
  return list;
}

Json FactsOf(const absl::Status& status) {
  Json metadata = Json::object();
  for (const ErrorFact& fact : GetFacts(status)) metadata[fact.name] = Shortened(fact.value);
  return metadata;
}

// The code of OpenAI's errors: the reason, else the code, in lower case.
std::string CodeOf(const absl::Status& status) {
  if (absl::IsUnauthenticated(status)) return "invalid_api_key";
  const std::string reason = GetReason(status);
  return absl::AsciiStrToLower(reason.empty() ? absl::StatusCodeToString(status.code()) : reason);
}

}  // namespace

Json OpenAiError(const absl::Status& status, const FieldNames& names) {
  const std::vector<FieldViolation> violations = ViolationsOf(status, names);
  Json error = {{"message", MessageOf(status, violations)},
                {"type", StatusOf(status).type},
                {"param", nullptr},
                {"code", CodeOf(status)}};
  if (!violations.empty()) error["param"] = Shortened(violations.front().field);
  if (GetReason(status) == kModelNotFound) error["param"] = "model";
  error["latentd"] = {{"reason", GetReason(status)},
                      {"metadata", FactsOf(status)},
                      {"violations", ToJson(violations)}};
  return {{"error", std::move(error)}};
}

Json SdapiError(const absl::Status& status, const FieldNames& names) {
  const std::string message = MessageOf(status, ViolationsOf(status, names));
  return {{"error", CodeOf(status)}, {"detail", message}, {"body", ""}, {"errors", message}};
}

Json HuggingFaceError(const absl::Status& status, const FieldNames& names) {
  return {{"error", MessageOf(status, ViolationsOf(status, names))}};
}

std::string ToText(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace latentd::server::http
