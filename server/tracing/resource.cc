#include "server/tracing/resource.h"

#include <map>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/base/text/utf8.h"

namespace latentd::server::tracing {
namespace {

namespace otlp = ::opentelemetry::proto::collector::trace::v1;

using Attributes = std::map<std::string, std::string>;

constexpr char kServiceName[] = "service.name";
constexpr char kServiceVersion[] = "service.version";

// "a%20b" is "a b".
std::optional<std::string> DecodePercents(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded.push_back(text[i]);
      continue;
    }
    const absl::string_view digits = text.substr(i + 1, 2);
    if (digits.size() < 2 || !absl::ascii_isxdigit(digits[0]) || !absl::ascii_isxdigit(digits[1])) {
      return std::nullopt;
    }
    decoded += absl::HexStringToBytes(digits);
    i += 2;
  }
  return decoded;
}

absl::Status WrongVariable(absl::string_view name, absl::string_view value,
                           absl::string_view right) {
  return absl::InvalidArgumentError(absl::StrCat(name, "=", Excerpt(value), ": must be ", right));
}

absl::StatusOr<Attributes> ParseAttributes(absl::string_view text) {
  Attributes attributes;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const size_t equals = part.find('=');
    const absl::string_view key = absl::StripAsciiWhitespace(part.substr(0, equals));
    const auto value = equals == part.npos
                           ? std::nullopt
                           : DecodePercents(absl::StripAsciiWhitespace(part.substr(equals + 1)));
    if (key.empty() || !value) {
      return WrongVariable("OTEL_RESOURCE_ATTRIBUTES", part,
                           "KEY=VALUE, percent-encoded, with commas between them");
    }
    attributes[std::string(key)] = *value;
  }
  return attributes;
}

}  // namespace

absl::StatusOr<otlp::Resource> MakeResource(const std::string& version, const char* service_name,
                                            const char* attributes) {
  ASSIGN_OR_RETURN(Attributes all, ParseAttributes(attributes == nullptr ? "" : attributes));
  if (service_name != nullptr && *service_name != '\0') all[kServiceName] = service_name;
  if (all[kServiceName].empty()) all[kServiceName] = "latentd";
  all[kServiceVersion] = version;
  otlp::Resource resource;
  for (const auto& [key, value] : all) {
    otlp::KeyValue& attribute = *resource.add_attributes();
    attribute.set_key(key);
    attribute.mutable_value()->set_string_value(value);
    if (!IsUtf8(key) || !IsUtf8(value)) {
      return WrongVariable(key == kServiceName ? "OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES"
                                               : "OTEL_RESOURCE_ATTRIBUTES",
                           value, "UTF-8");
    }
  }
  return resource;
}

}  // namespace latentd::server::tracing
