// The noise schedulers that there are and the grids that can be named behind them, with what
// requests, checkpoints and other programs call them. Private to core/schedulers.
//
// Names are written as NormalName makes them, with a space between two.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {

struct SchedulerRow {
  const Scheduler* scheduler;
  absl::string_view name;
  absl::string_view aliases;  // ComfyUI's names, k-diffusion's and others'; may be empty
  absl::string_view sampler;  // label in AUTOMATIC1111's web UI; empty: it has none
  absl::string_view grid;     // "Automatic" there: a grid's name; empty: the scheduler's own
  // Settings that the name makes beside the scheduler; the class's name in diffusers makes none.
  std::optional<AlgorithmType> algorithm_type = std::nullopt;
  std::optional<SolverType> solver_type = std::nullopt;
  std::optional<int> solver_order = std::nullopt;
};

struct GridRow {
  NamedGrid grid;
  absl::string_view name;
  absl::string_view aliases;
  absl::string_view schedule_type;  // label in AUTOMATIC1111's web UI and its descendants
};

// A name of other programs that is known, and why there is no such scheduler or grid here.
struct RefusedRow {
  absl::string_view names;
  absl::string_view why;
};

absl::Span<const SchedulerRow> SchedulerTable();
absl::Span<const GridRow> GridTable();
absl::Span<const RefusedRow> RefusedSchedulers();
absl::Span<const RefusedRow> RefusedGrids();

// "EulerDiscreteScheduler", ...: each class once.
std::vector<std::string> SupportedSchedulerClasses();

// The row whose name is the configuration's: of those of its scheduler whose settings it has, the
// one with most.
const SchedulerRow& RowOf(const SchedulerConfig& config);

}  // namespace latentd::schedulers
