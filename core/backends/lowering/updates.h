// Outputs that are written over the input of their name (backends::Port::updates).
#pragma once

#include <vector>

#include "core/graph/graph.h"

namespace latentd::backends::lowering {

struct Update {
  int input = -1;  // the port that the output is written over, or -1
  // The node that makes it may write it there itself: it reads no element of the input after it has
  // written it, and nothing reads the input after the node.
  bool in_place = false;
};

// The value that was only reshaped to become this one.
graph::ValueId RootOf(const graph::Graph& graph, graph::ValueId id);

// By output.
std::vector<Update> FindUpdates(const graph::Graph& graph);

}  // namespace latentd::backends::lowering
