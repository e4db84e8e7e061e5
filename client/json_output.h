// Answers as JSON, for `--json`.
#pragma once

#include <google/protobuf/message.h>

#include "client/error_text.h"

namespace latentd::client {

// Prints the message, every field included, on standard output.
ExitCode PrintJson(const google::protobuf::Message& message);

// The same on one line, for streams.
ExitCode PrintJsonLine(const google::protobuf::Message& message);

}  // namespace latentd::client
