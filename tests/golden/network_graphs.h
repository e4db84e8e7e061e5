// The graphs that a network case evaluates, made by core/networks from the case's class and config.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"
#include "core/graph/graph_builder.h"

namespace latentd::golden {

// Types of a case's inputs by name without the prefix "in.": "sample", "image", "input_ids".
using InputShapes = std::map<std::string, graph::Shape>;

// The prefix of the weights' names.
inline constexpr char kComponent[] = "network";

// The input that a text encoder's graph has beside the case's:
// networks::ClipTextInputs::pooled_positions.
inline constexpr char kPooledPositions[] = "pooled_positions";

// One graph for each function of the network (an autoencoder has two). Inputs and outputs have the
// names of the case's tensors without the prefixes "in." and "out.". INVALID_ARGUMENT for a class
// that is no network here, a config that it refuses, and inputs that are missing or do not fit.
absl::StatusOr<std::vector<graph::Graph>> BuildNetworkGraphs(absl::string_view class_name,
                                                             absl::string_view config,
                                                             const InputShapes& inputs);

}  // namespace latentd::golden
