// The graphs of the op conformance suite: for each op a few small ones, in all layouts, with odd
// sizes, with and without bias, in the broadcasting forms that networks use.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "core/graph/graph_builder.h"

namespace latentd::testing {

struct OpCase {
  std::string name;
  graph::Op op;
  // Declares inputs and weights and one output. Their names say what random values they get:
  // run_graph.h.
  std::function<void(graph::GraphBuilder&)> build;
};

// For GoogleTest's messages.
inline void PrintTo(const OpCase& c, std::ostream* out) { *out << c.name; }

// Cases of matrix products, attention and convolution, of which OverFramesCases are those of
// videos: layers over time, which see images of clips in another form; of low-rank paths beside
// them; of norms and elementwise ops; of movement; of ops that images need beside networks; of
// fused ops.
std::vector<OpCase> ProductCases();
std::vector<OpCase> OverFramesCases();
std::vector<OpCase> LowRankCases();
std::vector<OpCase> ElementwiseCases();
std::vector<OpCase> MovementCases();
std::vector<OpCase> SamplingCases();
std::vector<OpCase> FusedCases();

// Cases of 8-bit products, which the CPU backend does not have.
std::vector<OpCase> F8Cases();

std::vector<OpCase> CasesWithoutF8();
std::vector<OpCase> AllOpCases();

}  // namespace latentd::testing
