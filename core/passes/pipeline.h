// The passes in the order in which a graph goes through them, each with its reason, and the runner:
// it skips by name, times, runs, and verifies what came out.
//
// Every pass takes a graph that Verify accepts, leaves such a graph with the same inputs and
// outputs, and is numerically equal to what it was given but for the rounding of another order of
// the same operations. No pass reads a weight's
// value.
//
// Free functions; thread-safe.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/base/clock.h"
#include "core/device/buffer.h"
#include "core/graph/graph.h"
#include "core/graph/target.h"

namespace latentd::passes {

// Computes the one output of a graph without inputs from the values of its weights: the reference
// backend's evaluator, handed in because passes/ may not include backends/.
using Evaluator = std::function<absl::StatusOr<device::ConstBuffer>(
    const graph::Graph& graph, absl::Span<const device::ConstBuffer> sources)>;

struct PassOptions {
  std::set<std::string> skip;  // names of passes; a name that is none is INVALID_ARGUMENT
  Evaluator evaluate;          // null: literals are not folded
};

struct Pass {
  absl::string_view name;
  absl::string_view reason;  // why it stands where it stands
  absl::StatusOr<graph::Graph> (*run)(const graph::Graph& graph, const graph::Target& target,
                                      const PassOptions& options);
};

// In order; a name that stands twice is the same pass.
absl::Span<const Pass> Passes();

// INVALID_ARGUMENT names one that is no pass, and those that there are.
absl::Status CheckNames(const std::set<std::string>& skip);

struct PassTiming {
  absl::string_view name;
  absl::Duration duration;
  int nodes = 0;  // after the pass
};

// INTERNAL names the pass that left a graph which Verify refuses. `timings` may be null.
absl::StatusOr<graph::Graph> RunPasses(const graph::Graph& graph, const graph::Target& target,
                                       const PassOptions& options = {},
                                       std::vector<PassTiming>* timings = nullptr,
                                       const Clock& clock = SystemClock());

}  // namespace latentd::passes
