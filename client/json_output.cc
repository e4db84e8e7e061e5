#include "client/json_output.h"

#include <google/protobuf/util/json_util.h>

#include <iostream>
#include <string>

namespace latentd::client {
namespace {

ExitCode Print(const google::protobuf::Message& message, bool lines) {
  google::protobuf::util::JsonPrintOptions style;
  style.add_whitespace = lines;
  style.preserve_proto_field_names = true;
  style.always_print_primitive_fields = true;
  std::string json;
  const bool printed = google::protobuf::util::MessageToJsonString(message, &json, style).ok();
  std::cout << json << (lines ? "" : "\n") << std::flush;
  return printed ? ExitCode::kOk : ExitCode::kFailed;
}

}  // namespace

ExitCode PrintJson(const google::protobuf::Message& message) { return Print(message, true); }

ExitCode PrintJsonLine(const google::protobuf::Message& message) { return Print(message, false); }

}  // namespace latentd::client
