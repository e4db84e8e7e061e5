// Checks that the op conformance suites of all backends share: a case with its random leaves, its
// run, and the distance of a result.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/backends/backend.h"
#include "tests/conformance/op_cases.h"
#include "tests/conformance/run_graph.h"

namespace latentd::testing {

struct PreparedCase {
  std::shared_ptr<const graph::Graph> graph;  // null, and the test has failed: it does not build
  Leaves leaves;
};
PreparedCase Prepare(const OpCase& c);

inline std::shared_ptr<const graph::Graph> Share(const graph::Graph& graph) {
  return std::make_shared<const graph::Graph>(graph);
}

absl::StatusOr<std::vector<device::Buffer>> RunOn(backends::Backend& backend,
                                                  std::shared_ptr<const graph::Graph> graph,
                                                  const Leaves& leaves);
inline absl::StatusOr<std::vector<device::Buffer>> RunOn(backends::Backend& backend,
                                                         const PreparedCase& p) {
  return RunOn(backend, p.graph, p.leaves);
}

// The first element that is further off than the backend may be (tolerance.h), or "".
std::string Difference(const std::string& backend, const device::Buffer& actual,
                       const std::vector<double>& expected);

// Fails the test where a run on that backend failed, or gave other shapes or numbers.
void ExpectOutputs(const std::string& backend,
                   const absl::StatusOr<std::vector<device::Buffer>>& outputs,
                   const std::vector<device::Buffer>& expected);

// How often a graph rounds, at most.
int RoundingsOf(const graph::Graph& graph);

// The first element that is further from what f32 gives than so many roundings of its dtype allow,
// or "". One rounding is known to the bit but for the noise of f32 itself; later ones see the
// earlier ones' errors, which are relative to other values.
std::string RoundedDifference(const device::Buffer& actual, const device::Buffer& expected,
                              int roundings);

}  // namespace latentd::testing
