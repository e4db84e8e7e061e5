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
//   encoder_hidden_states.0 [R, 77, D0], ..., text_embeds [R, P], time_ids [R, T]
//                             request rate; one for each text encoder, joined along D
// Outputs: state and step, which update the inputs of that name; finite u8 [R]: 1 where all of a
// row's state is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/backends/bound_graph.h"
#include "core/graph/graph.h"
#include "core/networks/unet_2d_condition.h"
#include "core/pipeline/graphs/graph_name.h"
#include "core/pipeline/graphs/row_port.h"

namespace latentd::pipeline {

// The sizes of the request-rate inputs.
struct ConditioningSizes {
  int64_t tokens = 77;
  std::vector<int64_t> features;  // width of each text encoder's hidden states
  int64_t pooled = 0;
  int64_t time_ids = 6;

  // Sum over all encoders.
  int64_t joined_features() const {
    return std::accumulate(features.begin(), features.end(), int64_t{0});
  }
};

// The input for the hidden states of the text encoder at `index`: "encoder_hidden_states.0".
std::string HiddenStatesInput(size_t index);

// The inputs of the step rate, and "finite", for latents of so many elements.
std::vector<RowPort> StepPorts(int64_t elements);
// All ports of a step: those, and what the request part gave (core/graph/split.h), which an image
// brings when it joins.
std::vector<RowPort> StepPortsOf(const backends::ExecutableInfo& step);

// An image's values for them: the request part's results, [n, ...] each, and its guidance.
std::vector<RowValue> StepValues(const backends::NamedBuffers& request, double guidance_scale,
                                 double guidance_rescale);

absl::StatusOr<graph::Graph> MakeStepGraph(const networks::Unet2dConditionConfig& config,
                                           const StepShape& shape, const ConditioningSizes& sizes);

}  // namespace latentd::pipeline
