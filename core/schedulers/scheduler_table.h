// The noise schedulers that there are, and what requests and checkpoints call them. Private to this
// directory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/schedulers/scheduler.h"

namespace latentd::schedulers {

struct SchedulerRow {
  const Scheduler* scheduler;
  absl::string_view name;
  absl::string_view alias;    // another name; may be empty
  absl::string_view sampler;  // name in AUTOMATIC1111's web UI; empty: it has none
  std::optional<AlgorithmType> algorithm_type;  // set by the name beside the scheduler
};

absl::Span<const SchedulerRow> SchedulerTable();

// "EulerDiscreteScheduler", ...: each class once.
std::vector<std::string> SupportedSchedulerClasses();

// By name, alias or the class's name in diffusers, which says nothing of the algorithm; nullopt if
// there is none.
std::optional<SchedulerRow> FindScheduler(absl::string_view name);

}  // namespace latentd::schedulers
