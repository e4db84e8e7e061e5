// Answers as JSON, for `--json`.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "client/output/error_text.h"

namespace latentd::client {

// Prints the message, every field included, on standard output.
ExitCode PrintJson(const google::protobuf::Message& message);

// The same with one more member, which holds `part`. REQUIRES: `message` has a field, and none of
// that name.
ExitCode PrintJsonWith(const google::protobuf::Message& message, const std::string& name,
                       const google::protobuf::Message& part);

// As PrintJson, on one line, for streams.
ExitCode PrintJsonLine(const google::protobuf::Message& message);

// The same, not printed.
std::string JsonLine(const google::protobuf::Message& message);

// `text` between quotes. If it is not UTF-8, its bytes are escaped as in C: "caf\\xe9".
std::string JsonString(const std::string& text);

}  // namespace latentd::client
