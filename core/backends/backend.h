// A Backend turns optimised graphs into code for one device: MakePlan selects kernels and memory
// and writes them down; Load turns that plan and a weight set into an Executable. Load(MakePlan(g))
// is the only way to an Executable, also in the process that compiled, so what was saved is what
// runs. It also makes the weights that its executables read, in the forms that its plans name.
//
// Thread-safe: any method may be called from any thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/backends/executable.h"
#include "core/backends/findings.h"
#include "core/backends/plan.h"
#include "core/graph/graph.h"
#include "core/graph/target.h"
#include "core/weights/weight_maker.h"
#include "core/weights/weight_set.h"

namespace latentd::backends {

class Backend : public weights::WeightMaker {
 public:
  virtual const graph::Target& target() const = 0;

  // Facts that must be equal for a plan made elsewhere to run here: instruction set, thread count,
  // library versions.
  virtual std::string Fingerprint() const = 0;

  // Findings of MakePlan and MakeWeight about shapes; null: the backend needs none.
  virtual Findings* findings() { return nullptr; }

  // Kernel choices, memory plan and what they need. Deterministic, but for what is found out by
  // timing, and given what was found out the same again.
  virtual absl::StatusOr<Plan> MakePlan(const graph::Graph& graph) const = 0;

  // DATA_LOSS: the plan is not one that MakePlan made of this graph, here or on a machine of the
  // same fingerprint. What else Load says of graph and plan, without any weight.
  virtual absl::Status CheckPlan(const graph::Graph& graph, const Plan& plan) const = 0;

  // `graph` and `plan` are checked again: a plan that does not fit the graph, or that says that it
  // needs other memory than it does, is an error, never a crash. The executable takes what it needs
  // from `weights` (packed, counted users), whose store is of the same device and makes what this
  // backend's plans name, and keeps that alive.
  //
  // The code says what is at fault, and callers rely on it (a plan that is at fault is thrown away
  // and made anew, at the price of a compilation):
  //   DATA_LOSS: the graph or the plan is damaged, or the plan is not one of this graph. Nothing
  //     else is DATA_LOSS.
  //   INVALID_ARGUMENT, NOT_FOUND: the weights do not fit the graph.
  //   UNIMPLEMENTED: this build cannot run the graph.
  //   RESOURCE_EXHAUSTED: memory, from any reporter of its lack.
  //   Anything else: this machine, now. The next try may succeed with the same plan.
  virtual absl::StatusOr<std::unique_ptr<Executable>> Load(
      std::shared_ptr<const graph::Graph> graph, const Plan& plan,
      const weights::WeightSet& weights) = 0;
};

}  // namespace latentd::backends
