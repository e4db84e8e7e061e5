// The work of a step, as one graph: input scaling -> UNet -> guidance -> noise scheduler. All
// scalars of a request are inputs, so that a changed value changes the picture and compiles
// nothing.
//
// Inputs, for R rows of latents of N elements each (step rate unless said otherwise); StepPorts
// says what a lane does with each:
//   state [R, 4, N]           x and the noise scheduler's history (core/schedulers/schedule.h)
//   step i64 [R]              which line of its table a row is at
//   table [R, kMaxEvaluations, 27]
//                             the row's schedule (schedulers::WriteTable)
//   noise [R, N]              read where the line says that noise is drawn
//   guidance_scale [R], guidance_rescale [R]
//   negative_rows i64 [R], text_rows i64 [R]
//                             for each row, which rows are conditioned on its negative prompt and
//                             on its prompt: the same row twice where there is no guidance
//   mask [R, 1 * n], masked_latents [R, N]
//                             of a UNet for inpainting alone, with n latents in a channel: 1 where
//                             it draws, and the latents of the image that has grey there
//   residual.0, residual.1, ... [R, ...]
//                             of a controlled step alone: what control networks add
//                             (control_graph.h)
//   image_prompt, image_prompt_2, ... [R, m]
//                             of a step with images as prompts alone, one for each adapter: what
//                             attention reads beside the text (image_prompt_graph.h)
//   request rate: what the family's network reads besides (core/families/family/family.h)
// Steps that give or read deep features have "deep_features" as an output or an input, with
// channels last as a residual: a shallow step is the full one cut there (core/graph/cut.h), so that
// it reads what that has computed, in the dtype that the network computes in, and other inputs as
// that does.
// Steps with low-rank paths have their inputs too, which ModelGraphs adds.
// Outputs: state and step, which update the inputs of that name; finite u8 [R]: 1 where all of a
// row's state is; contrast [R]: the deviation of the difference of the network's outputs for the
// row's negative prompt and for its prompt, before guidance; 0 where both are one row's, as where
// there is none.
//
// The same as two graphs, for rows of one image on two devices: *network*, from state, step, table
// and the request rate to
//   prediction [R, N]         what the UNet says, in the dtype that it computes in
// and *advance*, from that and the other inputs to the outputs. Both compute the bytes that the
// step computes.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/backends/bound_graph.h"
#include "core/device/dtype.h"
#include "core/families/family/family.h"
#include "core/graph/graph.h"
#include "core/pipeline/graphs/graph_name.h"
#include "core/pipeline/graphs/row_port.h"

namespace latentd::pipeline {

// The inputs of the step rate, "finite" and "contrast", for latents of so many elements.
std::vector<RowPort> StepPorts(int64_t elements);
// The ports that a UNet for inpainting reads besides, of latents of so many channels and elements
// of each.
std::vector<RowPort> InpaintingPorts(int64_t channels, int64_t elements);
// The ports that steps with low-rank paths read besides (core/graph/low_rank_paths.h), of so many
// scales a row.
std::vector<RowPort> PathPorts(int64_t scales);
// All ports of a step: those, and what the request part gave (core/graph/split.h), which an image
// brings when it joins.
std::vector<RowPort> StepPortsOf(const backends::ExecutableInfo& step);

// Port of deep features, and the one of steps of that height and width in latents.
inline constexpr char kDeepPort[] = "deep_features";
RowPort DeepPort(const networks::Unet2dConditionConfig& unet, int64_t height, int64_t width,
                 device::DType dtype);

// Output of a network, input of an advance.
inline constexpr char kPredictionPort[] = "prediction";

// Names of InpaintingPorts.
inline constexpr char kMaskPort[] = "mask", kMaskedLatentsPort[] = "masked_latents";

// An image's values for them: the request part's results, [n, ...] each, and its guidance.
std::vector<RowValue> StepValues(const backends::NamedBuffers& request, double guidance_scale,
                                 double guidance_rescale);

// `brought` is the dtype of what networks beside the model give: residuals, of a controlled step,
// and images as prompts. `brought` is that of deep features too, which the graph gives unless the
// shape says that there are none.
absl::StatusOr<graph::Graph> MakeStepGraph(const families::Family& family,
                                           const families::ModelConfigs& configs,
                                           const StepShape& shape,
                                           device::DType brought = device::DType::kF32,
                                           bool controlled = false);

// The two parts of a step. `predicted` is the dtype of what passes between them. REQUIRES: a UNet
// that does not inpaint, without low-rank paths and images as prompts.
absl::StatusOr<graph::Graph> MakeNetworkGraph(const families::Family& family,
                                              const families::ModelConfigs& configs,
                                              const StepShape& shape, device::DType predicted);
absl::StatusOr<graph::Graph> MakeAdvanceGraph(const families::ModelConfigs& configs,
                                              const StepShape& shape, device::DType predicted);

}  // namespace latentd::pipeline
