// The plan of a request for videos: each is drawn of the request's image by a model that draws
// those, in units like an image's. The image encoder is in the place of text (kText); kEncode makes
// the image's latents, with noise of the video's own seed on it; a kStep is an evaluation of all
// frames; and kDecode comes as often as there are chunks of frames (VideoSpec::decode_chunk_size).
//
// Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/base/errors/error_details.h"
#include "core/pipeline/graphs/loaded_model.h"
#include "core/pipeline/plan/plan.h"
#include "core/pipeline/spec/request/inputs.h"
#include "core/pipeline/spec/validation.h"

namespace latentd::pipeline {

// Fills in every default of plan.spec, and its one stage. INVALID_ARGUMENT with every bad field at
// once, those in `found` too. REQUIRES: the model draws videos, and is one of `traits`.
absl::Status ResolveVideoSpec(const LoadedModel& model, const Traits& traits, const Inputs& inputs,
                              std::vector<FieldViolation> found, Plan& plan);

// Works out what follows from the spec and the executed size, but for the bytes. `row_counts`:
// numbers of rows that steps of that size have graphs for.
void CompleteVideoPlan(const LoadedModel& model, const std::vector<int>& row_counts, Plan& plan);

// Frames of each chunk of the video that begins with its frame `first`; 0: there are none.
int ChunkAt(const VideoSpec& resolved, int first);

// Parts in which the plan's videos decode that many frames together, each a unit; and the work of
// one of so many, in frames that are decoded at once.
int DecoderPartsOf(const Plan& plan, int frames);
int WorkOfPart(int frames, int parts);

// Graphs that a video cannot be drawn without, of latents and steps of that shape, which is decoded
// in chunks of so many frames.
std::vector<PlannedGraph> VideoGraphs(const LoadedModel& model, const StepShape& shape, int chunk);
// The same of the plan's videos, which have steps of one row too where their guidance ends.
// REQUIRES: the plan has its rows and sizes.
std::vector<PlannedGraph> VideoGraphs(const Plan& plan, int chunk);

// Frames of a chunk where requests do not say, of a video of so many.
int DefaultChunk(const ModelRow& model, int frames);

// Bytes that videos hold while they are drawn, beside weights, executables, arena and lane:
// `videos` of one request, side by side, which are decoded in chunks of so many frames.
int64_t VideoRequestBytes(const LoadedModel& model, const StepShape& shape, Size size, int chunk,
                          int videos);
// The same of a lane of shape.rows and the videos that fill it, each with one row.
int64_t VideoStateBytes(const LoadedModel& model, const StepShape& shape, Size size, int chunk);
// Bytes that a video holds in addition if its steps, of which two may be enqueued, are read for
// previews.
int64_t VideoPreviewBytes(const LoadedModel& model, const StepShape& shape);

}  // namespace latentd::pipeline
