// What runs at a step, as one graph: input scaling -> UNet -> guidance -> noise scheduler. All
// scalars of a request are inputs, so that a changed value changes the picture and compiles
// nothing.
//
// Inputs, for R rows, C channels, H x W latents (step rate unless said otherwise):
//   state [R, 4, C, H, W]     x and the noise scheduler's history (core/schedulers/schedule.h)
//   noise [R, C, H, W]
//   input_scale [R], timestep [R], matrix [R, 4, 6]
//                             the row's line of its schedule
//   guidance [R, R]           what each row's output becomes of all rows': [[1-g, g], [1-g, g]]
//                             for a picture's two rows
//   text_rows [R, R]          for each row, which row is conditioned on its prompt
//   guidance_rescale [R]
//   encoder_hidden_states [R, 77, D], text_embeds [R, P], time_ids [R, T]
//                             request rate
// Output: state [R, 4, C, H, W].
#pragma once

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/graph/graph_builder.h"
#include "core/models/unet_2d_condition.h"

namespace latentd::pipeline {

struct StepShape {
  int rows = 1;
  int height = 0;  // of the latents
  int width = 0;
  bool operator==(const StepShape&) const = default;
};

// The sizes of the request-rate inputs.
struct ConditioningSizes {
  int64_t tokens = 77;
  int64_t features = 0;  // of encoder_hidden_states
  int64_t pooled = 0;
  int64_t time_ids = 6;
};

absl::StatusOr<graph::Graph> MakeStepGraph(const models::Unet2dConditionConfig& config,
                                           const StepShape& shape, const ConditioningSizes& sizes,
                                           graph::GraphBuilder::StoredDType stored_dtype);

// Float32 values in all inputs but those of request rate, and in the output.
int64_t StepElements(const StepShape& shape, int64_t channels);

}  // namespace latentd::pipeline
