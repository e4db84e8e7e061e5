// Random graphs of every op of the table: random shapes, layouts, attributes, dtypes of weights and
// rates. Nodes like to read the node before them and what has the right shape, so that the patterns
// that passes look for come up.
#pragma once

#include "core/graph/graph.h"

namespace latentd::testing {

// The same graph for the same seed. It verifies, its leaves are named for RandomLeaves
// (run_graph.h), none of its values has more than a few thousand elements, and what it computes is
// of moderate size. Between leaves and outputs everything is f32.
graph::Graph RandomGraph(unsigned seed);

}  // namespace latentd::testing
