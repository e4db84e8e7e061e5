// Answers as JSON, for `--json`.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "client/output/error_text.h"

namespace latentd::client {

// Prints the message, every field included, on standard output.
ExitCode PrintJson(const google::protobuf::Message& message);

// The same on one line, for streams.
ExitCode PrintJsonLine(const google::protobuf::Message& message);

// The same, not printed.
std::string JsonLine(const google::protobuf::Message& message);

// `text` between quotes. If it is not UTF-8, its bytes are escaped as in C: "caf\\xe9".
std::string JsonString(const std::string& text);

}  // namespace latentd::client
