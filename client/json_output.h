// Answers as JSON, for `--json`.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "absl/strings/string_view.h"
#include "client/error_text.h"

namespace latentd::client {

// Prints the message, every field included, on standard output.
ExitCode PrintJson(const google::protobuf::Message& message);

// The same on one line, for streams.
ExitCode PrintJsonLine(const google::protobuf::Message& message);

// The same, not printed.
std::string JsonLine(const google::protobuf::Message& message);

// `text`, which need not be UTF-8, between quotes.
std::string JsonString(absl::string_view text);

}  // namespace latentd::client
