// A Backend turns optimised graphs into code for one device: Plan selects kernels and memory and
// writes them down as bytes; Load turns those bytes and a weight set into an Executable.
// Load(Plan(g)) is the only way to an Executable, also in the process that compiled, so what was
// saved is what runs.
//
// Thread-safe: any method may be called from any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/backends/executable.h"
#include "core/graph/graph.h"
#include "core/graph/target.h"
#include "core/weights/weight_set.h"
#include "core/weights/weight_store.h"

namespace latentd::backends {

// What a graph would hold once it is loaded.
struct MemoryNeeds {
  size_t arena_bytes = 0;       // that one run uses; all executables of a backend share one arena
  size_t executable_bytes = 0;  // beside arena and weights
  // Bytes of the recipes' results by their keys in WeightStore: what several graphs read is there
  // once.
  std::map<std::string, size_t> weights;
  // What making one of them takes for a moment beside the result; they are made one at a time.
  // Those that take nothing are left out.
  std::map<std::string, size_t> making;

  void Add(const weights::ResultNeeds& result) {
    weights[result.key] = result.bytes;
    if (result.making_bytes > 0) making[result.key] = result.making_bytes;
  }
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const graph::Target& target() const = 0;

  // What must be equal for a plan made elsewhere to run here: instruction set, thread count,
  // library versions.
  virtual std::string Fingerprint() const = 0;

  // Kernel choices and memory plan for `graph`, as bytes that Load understands. Deterministic.
  virtual absl::StatusOr<std::string> Plan(const graph::Graph& graph) const = 0;

  // Asked with what an executable would hold, before it holds any of it; an error is what loading
  // it comes to. Empty: whatever it holds is fine.
  using Admission = std::function<absl::Status(const MemoryNeeds&)>;

  // `graph` and `plan` are verified again: a plan that does not fit the graph is an error, never a
  // crash. The executable takes what it needs from `weights` (packed, counted users) and keeps that
  // alive.
  //
  // The code says what is at fault, and callers rely on it (a plan that is at fault is thrown away
  // and made anew, at the price of a compilation):
  //   DATA_LOSS: the graph or the plan is damaged, or the plan is not one of this graph. Nothing
  //     else is DATA_LOSS.
  //   INVALID_ARGUMENT, NOT_FOUND: the weights do not fit the graph.
  //   UNIMPLEMENTED: this build cannot run the graph.
  //   RESOURCE_EXHAUSTED: memory, whoever reports the lack of it; or what `admit` said.
  //   Anything else: this machine, now. The next try may succeed with the same plan.
  virtual absl::StatusOr<std::unique_ptr<Executable>> LoadIf(
      std::shared_ptr<const graph::Graph> graph, absl::string_view plan,
      const weights::WeightSet& weights, const Admission& admit) = 0;
  absl::StatusOr<std::unique_ptr<Executable>> Load(std::shared_ptr<const graph::Graph> graph,
                                                   absl::string_view plan,
                                                   const weights::WeightSet& weights) {
    return LoadIf(std::move(graph), plan, weights, {});
  }

  // What Load of the same would hold, without holding it: no weight is made. Errors as Load's.
  virtual absl::StatusOr<MemoryNeeds> Predict(const graph::Graph& graph, absl::string_view plan,
                                              const weights::WeightSet& weights) const = 0;
};

}  // namespace latentd::backends
