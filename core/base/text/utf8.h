// Bytes as text. File names, the contents of files, the environment and the names of callers are
// bytes; what the process says is text in UTF-8, and one wrong byte makes a reader refuse all of
// it: a message, a scrape, a line of JSON. So every place where text leaves the process passes it
// through here: server/calls/serialize.h and server/process/logs/utf8_message.h for messages,
// server/process/logs/log.h for the log, core/metrics/registry.h for metrics, and the pages for
// probes.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace latentd {

// As protobuf, JSON and Prometheus see it: no overlong forms, no surrogates, nothing above
// U+10FFFF.
bool IsUtf8(absl::string_view text);

// Keeps valid UTF-8 as it is and writes each other byte as C does: a Latin-1 "café" becomes
// "caf\xe9". So a reader sees which byte it was, and two names that differ still do.
std::string ToUtf8(absl::string_view text);

}  // namespace latentd
