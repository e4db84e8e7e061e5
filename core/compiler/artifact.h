// An artifact: one compiled graph without weights, and its form as bytes.
//
// As a file it is an entry of the disk cache (cache/entry_file.h), which holds key and checksums;
// it is exported and imported as that file. The entry's payload:
//
//   u8[8]   "latentgr"
//   u32     format of the payload, 4
//   u32     length of the label's text
//   u64     length of the graph's text
//   u64     length of the plan's bytes
//   u64     how long compiling took, in microseconds
//   u64     bytes of the arena, then those of an executable, that the plan needs
//   u32     number of weights that it needs, then for each of them: value of the graph (u32),
//   length
//           of its form (u32), bytes of the result and those that packing takes (u64), the form
//   the label, the optimised graph (graph/text.h), and the plan's bytes
//
// Numbers are little-endian. Free functions; thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/backends/backend.h"
#include "core/compiler/graph_key.h"
#include "core/compiler/graph_label.h"
#include "core/graph/graph.h"

namespace latentd::compiler {

struct Artifact {
  GraphKey key;
  GraphLabel label;                           // the first compilation's; no sign of its use
  std::shared_ptr<const graph::Graph> graph;  // after passes
  backends::Plan plan;                        // and what it needs
  absl::Duration compile_time;
};

// Parsed artifacts are checked once, here, and shared from then on.
using ArtifactPointer = std::shared_ptr<const Artifact>;

size_t MemoryBytes(const Artifact& artifact);

std::string WritePayload(const Artifact& artifact);
// DATA_LOSS says what is wrong; FAILED_PRECONDITION: in the format of another version. Whether plan
// and graph fit is the backend's to check, and the checksum the container's.
absl::StatusOr<ArtifactPointer> ParsePayload(GraphKey key, absl::string_view payload);

// The file.
std::string WriteArtifact(const Artifact& artifact);
// As ParsePayload. FAILED_PRECONDITION too for a key of another form.
absl::StatusOr<ArtifactPointer> ParseArtifact(absl::string_view file);

// Head of a payload, for listings: the graph is not parsed. Errors as ParsePayload's.
struct PayloadHead {
  std::optional<GraphLabel> label;  // nullopt: it is not one of a graph
  absl::Duration compile_time;
};
absl::StatusOr<PayloadHead> ParsePayloadHead(absl::string_view payload);

// OK iff both have the same inputs and outputs, and `optimised` reads no weight that `declared`
// does not; else DATA_LOSS: it is not `declared` after passes.
absl::Status CheckSamePorts(const graph::Graph& declared, const graph::Graph& optimised);

}  // namespace latentd::compiler
