// How graphs stand, in full: what lists and reports are made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/compiler/graph_key.h"
#include "core/compiler/graph_label.h"
#include "core/compiler/graph_state.h"

namespace latentd::compiler {

// One graph, as operators see it.
struct GraphStatus {
  std::string id;    // 32 hexadecimal digits
  GraphLabel label;  // from its first declaration; of a graph that is only on disk: as it was saved
  std::vector<std::string> users;        // empty: on disk, and nothing that is served wants it
  GraphState state = GraphState::kCold;  // kReady: for every user
  std::string reason;     // kFailed: why; kCold: why what was on disk could not be used
  bool loadable = false;  // kFailed: nothing would be compiled, and loading it may succeed now
  GraphKey key;
  int64_t device_bytes = 0;  // bytes of its executables, beside arena and weights
  int64_t arena_bytes = 0;   // bytes that one run uses; 0 where it is not known yet
  int64_t memory_bytes = 0;  // bytes of the artifact in memory
  int64_t disk_bytes = 0;
  int compilations = 0;         // in this process, those that came to something
  absl::Duration compile_time;  // time of the last, or as the artifact says
  absl::Duration load_time;     // time of the last load, first run included
  int64_t hits = 0;
  absl::Time last_use = absl::InfinitePast();  // wall clock; InfinitePast: never
  bool pinned = false;
  bool in_use = false;
};

// How much was done since the start, and what is held now.
struct StoreTotals {
  int64_t compilations = 0, loads = 0, hits = 0;
  absl::Duration compile_time, load_time;  // work_time.h
  int64_t executable_bytes = 0;
  int64_t artifact_bytes = 0;    // in memory, with what waits to be written to disk
  int64_t arena_bytes = 0;       // the largest that a loaded graph uses in a run
  int64_t definition_bytes = 0;  // graphs as they were declared, and predictions that are kept
};

}  // namespace latentd::compiler
