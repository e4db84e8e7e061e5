#include "client/output/json_output.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <iostream>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "client/words/text.h"

namespace latentd::client {
namespace {

bool ToJson(const google::protobuf::Message& message, bool lines, std::string& json) {
  google::protobuf::util::JsonPrintOptions style;
  style.add_whitespace = lines;
  style.preserve_proto_field_names = true;
  style.always_print_primitive_fields = true;
  return google::protobuf::util::MessageToJsonString(message, &json, style).ok();
}

ExitCode Print(const google::protobuf::Message& message, bool lines) {
  std::string json;
  const bool printed = ToJson(message, lines, json);
  std::cout << json << (lines ? "" : "\n") << std::flush;
  return printed ? ExitCode::kOk : ExitCode::kFailed;
}

}  // namespace

ExitCode PrintJson(const google::protobuf::Message& message) { return Print(message, true); }

ExitCode PrintJsonWith(const google::protobuf::Message& message, const std::string& name,
                       const google::protobuf::Message& part) {
  std::string json, inner;
  const bool printed = ToJson(message, /*lines=*/true, json) && ToJson(part, /*lines=*/true, inner);
  if (!printed) return ExitCode::kFailed;
  json.erase(json.rfind('}'));  // its own end
  absl::StripTrailingAsciiWhitespace(&json);
  std::cout << json << ",\n \"" << name << "\": " << inner << "}\n" << std::flush;
  return ExitCode::kOk;
}

ExitCode PrintJsonLine(const google::protobuf::Message& message) { return Print(message, false); }

std::string JsonLine(const google::protobuf::Message& message) {
  std::string json;
  ToJson(message, /*lines=*/false, json);
  return json;
}

std::string JsonString(const std::string& text) {
  google::protobuf::Value value;
  value.set_string_value(IsUtf8(text) ? text : absl::CHexEscape(text));
  return JsonLine(value);
}

}  // namespace latentd::client
