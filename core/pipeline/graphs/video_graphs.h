// The graphs of a model that draws videos, by the names that images' have: kText is the image
// encoder, kEncode the image's latents, kDecode frames that are decoded together.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/families/family/family.h"
#include "core/graph/graph.h"
#include "core/graph/precision.h"
#include "core/pipeline/graphs/graph_name.h"
#include "core/pipeline/graphs/row_port.h"
#include "core/pipeline/spec/models/components.h"

namespace latentd::pipeline {

// The whole graph, of which kRequest and kStep are parts; or a part of the decoder, which computes
// in `decoder`. REQUIRES: a family of videos, and a name that such models have graphs of.
absl::StatusOr<graph::Graph> MakeVideoGraph(const families::Family& family,
                                            const families::ModelConfigs& configs,
                                            const GraphName& name, device::DType decoder);

// Bytes of what parts of the decoder leave for those behind them, at most at a time, of frames that
// are decoded together: what one reads, and what it gives. 0: the decoder has one part.
int64_t FeaturesBytes(const families::Family& family, const families::ModelConfigs& configs,
                      const StepShape& chunk, device::DType decoder);

// The inputs of the step rate, and "finite", of a step whose rows have so many elements and frames.
std::vector<RowPort> VideoStepPorts(int64_t elements, int frames);
// Ports of these that no image's step has, or has for the whole image.
std::vector<RowPort> VideoPorts(int64_t elements, int frames);

// Precision of a component, by its flag name; kF8E4M3 as images have it.
graph::Precision VideoPrecisionOf(const ComponentDTypes& wanted, absl::string_view component,
                                  const families::Family& family,
                                  const families::ModelConfigs& configs);

}  // namespace latentd::pipeline
