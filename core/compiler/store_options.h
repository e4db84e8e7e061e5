// How a GraphStore works, and what its parts share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/backends/backend.h"
#include "core/base/clock.h"
#include "core/compiler/artifact_files.h"
#include "core/compiler/graph_key.h"
#include "core/compiler/graph_label.h"
#include "core/compiler/work_time.h"
#include "core/device/device_fault.h"
#include "core/metrics/registry.h"

namespace latentd::compiler {

// Memory that an eviction would free: of the weight store's results, the addresses of those that
// nothing else that is loaded reads.
struct Eviction {
  absl::flat_hash_set<const void*> weights;
  int64_t arena_bytes = 0;  // by how much it shrinks
  int64_t executable_bytes = 0;
  int64_t artifact_bytes = 0;
  bool with_users = false;  // and what its users hold beside it, if they are gone too
  bool only_asked = false;  // nothing is about to be taken where it fits then
};

struct StoreOptions {
  CompileOptions compile;
  size_t memory_budget = size_t{1} << 30;  // executables' own bytes and artifacts in memory
  bool run_once = false;  // run each artifact's first executable once, on zeros, when it is loaded
  // How long another process that compiles the same graph is waited for before it is compiled here
  // too: longer than any compilation takes, since only a process that hangs has it so long.
  absl::Duration compile_wait = absl::Minutes(1);
  // Asked while waiting for another process; true: give up, with CANCELLED. May be empty.
  std::function<bool()> stop = {};
  // Takes what writes an artifact that has so many bytes in memory, to run it now or soon; empty:
  // it is run at once. Waiting ones must have run before the store goes.
  std::function<void(size_t bytes, std::function<void()> write)> write = {};
  // Reports a failure that does not stop the service: an artifact that could not be used or
  // written. Called from any thread, without a lock.
  std::function<void(absl::string_view)> on_warning = {};
  // Reports a device that has failed (core/device/device_fault.h) while a graph was compiled,
  // loaded or run once, or room for one was asked for, before the caller gets that error. Called
  // likewise; may be empty.
  std::function<void(const absl::Status& fault)> on_device_fault = {};
  // Asked before a graph is loaded, with what it would hold, and whether it would fit if something
  // left (usually nothing does); an error is what loading it comes to, unless it is
  // RESOURCE_EXHAUSTED and enough can be evicted. Called from any thread, without a lock that the
  // store's other methods take; must load nothing.
  std::function<absl::Status(const GraphLabel&, const backends::MemoryNeeds&, const Eviction&)>
      before_load = {};

  void Warn(absl::string_view what) const {
    if (on_warning) on_warning(what);
  }
  // Reports a fault, if the outcome of something that uses the device is one.
  void NoteOutcome(const absl::Status& outcome) const {
    if (on_device_fault && device::IsFault(outcome)) on_device_fault(outcome);
  }
};

struct StoreServices {
  const Clock& clock;
  metrics::Registry& registry;
  const StoreOptions options;
  ArtifactFiles files;
  WorkTime time;
  std::atomic<bool> compiling_forbidden = false;
  std::atomic<int64_t> compilations = 0;  // since the start, those that came to something
};

}  // namespace latentd::compiler
