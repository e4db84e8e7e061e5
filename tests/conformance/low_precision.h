// The graphs of the op conformance suite in another float dtype, and what they should compute.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/backends/backend.h"
#include "tests/conformance/op_cases.h"
#include "tests/conformance/run_graph.h"

namespace latentd::testing {

// The graph with inputs, weights and constants of `dtype` where they were f32, and bodies alike.
// Time steps and the scales of low-rank paths stay f32, which their ops want. REQUIRES: no casts.
graph::Graph InDType(const graph::Graph& graph, device::DType dtype);

// The cases whose op has a meaning in every float dtype: neither casts nor what takes one only, as
// all that 8-bit floats are made of.
std::vector<OpCase> CasesOfEveryDType();

// The cases in bf16 and in f16.
using LowCase = std::tuple<OpCase, device::DType>;
std::vector<LowCase> LowCases();
std::string LowCaseName(const ::testing::TestParamInfo<LowCase>& info);

// A case in its dtype, with random leaves, and what the reference backend computes of the same
// values in f32.
struct LowRun {
  device::DType dtype;
  std::shared_ptr<const graph::Graph> graph;  // null, and the test has failed: it does not build
  Leaves leaves;
  std::vector<device::Buffer> expected;
};
LowRun PrepareLow(const LowCase& c);

// Fails the test unless the backend gives that, but for so many roundings.
void ExpectRounded(backends::Backend& backend, const LowRun& run, int roundings);

}  // namespace latentd::testing
