// Hangs are the work and the threads of an engine that have run for too long. Plain data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/threads/thread_watch.h"
#include "core/engine/api/events.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::engine {

// The unit of work that runs, and has for too long.
struct OverdueUnit {
  std::string request_id;
  int image_index = 0;
  Stage stage = Stage::kText;
  std::string model;
  pipeline::Size executed_size;
  absl::Duration running;
  absl::Duration limit;  // core/engine/loop/unit_watchdog.h
};

// Threads, and a unit, that have run for too long.
struct Hangs {
  bool empty() const { return !unit.has_value() && threads.empty(); }

  std::optional<OverdueUnit> unit;
  std::vector<OverdueThread> threads;  // at anything else
};

}  // namespace latentd::engine
