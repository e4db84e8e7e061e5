// An artifact: one compiled graph as bytes, without weights.
//
//   offset  size
//        0     8  magic "latentgr"
//        8     4  format version, 2
//       12     4  length of the key's text, K
//       16     8  length of the label's text, L
//       24     8  length of the graph's text, G
//       32     8  length of the plan, P
//       40     8  how long compiling took, in microseconds
//       48    16  XXH3-128 of everything from offset 64 on, xor that of the first 48 bytes
//       64     K  the key, spelled out (graph_key.h)
//     64+K     L  what the graph is for (graph_label.h); says nothing about its use
//   64+K+L     G  the optimised graph (core/graph/text.h)
// 64+K+L+G     P  the backend's plan: kernel choices and memory plan
//
// Numbers are little-endian. The version changes with the layout; another version is refused like
// damage is.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace latentd::compiler {

// Views into the bytes that were parsed.
struct Artifact {
  absl::string_view key;
  absl::string_view label;
  absl::string_view graph;
  absl::string_view plan;
  absl::Duration compile_time;
};

std::string WriteArtifact(const Artifact& artifact);

// DATA_LOSS says what is wrong: cut short, extended, another format, a checksum that does not fit.
// Never reads beyond `bytes`, which must outlive the result.
absl::StatusOr<Artifact> ParseArtifact(absl::string_view bytes);

}  // namespace latentd::compiler
