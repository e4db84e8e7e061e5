// How much memory pictures take while they are drawn, beside weights, executables and arena, where
// every model has its turn.
#pragma once

#include <cstdint>
#include <vector>

#include "core/pipeline/graphs/loaded_model.h"
#include "core/pipeline/plan/plan.h"

namespace latentd::pipeline {

// Bytes that `pictures` of one request hold, drawn side by side, beside their lane, each of
// shape.rows: prompts, init image, latents, and the pixels of one.
int64_t RequestBytes(const std::vector<const LoadedModel*>& models, const StepShape& shape,
                     Size size, int pictures);

// Bytes that rows hold in addition if tokens of their prompts have weights: the states that these
// move the prompts' away from.
int64_t EmphasisBytes(const std::vector<const LoadedModel*>& models, const StepShape& shape);

// Bytes that rows hold in addition if prompts of the plan have blends: a state for each encoder,
// and the inputs of each run, on the host and on the device.
int64_t BlendBytes(const std::vector<const LoadedModel*>& models, const StepShape& shape,
                   const Plan& plan);

// Bytes that a picture of that size holds in addition if its init image has a mask.
int64_t MaskBytes(const std::vector<const LoadedModel*>& models, const StepShape& shape, Size size,
                  bool differential);

// Bytes that a request holds in addition if its init image is laid over what is drawn.
int64_t OverlayBytes(const Plan& plan);

// Bytes that a picture of that size holds in addition if its steps are read for previews.
int64_t PreviewBytes(const std::vector<const LoadedModel*>& models, const StepShape& shape,
                     Size size);

// A lane of shape.rows, with the pool of low-rank paths where steps may have any, and what the
// pictures hold that fill it: the most that is, where each of them has one row and is a request of
// its own, and where one of them is decoded at a time.
int64_t StateBytes(const std::vector<const LoadedModel*>& models, const StepShape& shape,
                   Size size);

}  // namespace latentd::pipeline
