// The graphs of a ControlNet (core/networks/control_net.h) over a model, and the ports by which the
// model's steps read what it says.
//
// The hint, once a picture:
//   image u8 [1, H, W, 3] -> hint [1, h, w, c]
// and of a ControlNet-Union, which is told the type of the image,
//   image, image_types f32 [1, T]: 1 for its type, else 0 -> hint, image_type f32 [1, e]
// An evaluation, for R rows of latents of a picture that wants it (step rate unless said
// otherwise):
//   latents [R, C, h, w], input_scale [R], timestep [R]
//                             what the UNet's step makes its input of
//   hint [R, h, w, c]
//   image_type f32 [R, e]     of a ControlNet-Union alone
//   scales [R, n]             a factor for each of the n residuals
//   residual.0, residual.1, ... [R, h, w, c], each of its own size
//                             what other nets said, or zeros; written over by the sums
//   request rate: what the family's networks read (core/families/family/family.h)
// Residuals and hints are of the dtype that the networks compute in, and channels come last, as in
// the networks of all backends that are fast: nothing is transposed on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/device/dtype.h"
#include "core/families/family/family.h"
#include "core/graph/graph.h"
#include "core/graph/graph_builder.h"
#include "core/networks/config/control_net_config.h"
#include "core/pipeline/graphs/graph_name.h"
#include "core/pipeline/graphs/row_port.h"

namespace latentd::pipeline {

// Name of the port of the residual at that index; true for such names; and the index of one.
std::string ResidualName(size_t index);
bool IsResidual(absl::string_view port);
size_t ResidualIndex(absl::string_view port);

// The residuals that a UNet's steps read, of latents of that height and width.
std::vector<RowPort> ResidualPorts(const networks::Unet2dConditionConfig& unet, int64_t height,
                                   int64_t width, device::DType dtype);

// A residual's or a hint's port as the networks read it: f32 [R, c, h, w].
graph::Value ImageOfPort(graph::GraphBuilder& builder, graph::Value port);

absl::StatusOr<graph::Graph> MakeHintGraph(const networks::ControlNetConfig& net, int64_t height,
                                           int64_t width, device::DType dtype);

absl::StatusOr<graph::Graph> MakeControlGraph(const families::Family& family,
                                              const families::ModelConfigs& configs,
                                              const networks::ControlNetConfig& net,
                                              const StepShape& shape, device::DType dtype);

}  // namespace latentd::pipeline
