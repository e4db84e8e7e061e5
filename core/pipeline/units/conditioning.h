// Prompts and micro-conditioning to what a UNet is told, as diffusers' SDXL pipelines do it.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/pipeline/graphs/sdxl_model.h"
#include "core/pipeline/spec/picture_spec.h"
#include "core/pipeline/units/run_graph.h"
#include "core/pipeline/units/stage.h"

namespace latentd::pipeline {

// Results of the text encoders for one row's prompts.
struct EncodedPrompt {
  std::vector<device::Buffer> hidden_states;  // one for each encoder [1, 77, its features]
  device::Buffer pooled;                      // from the last encoder, [1, channels]
};

// Enqueues runs of the stage's text encoders, for each row of a picture.
absl::StatusOr<std::vector<EncodedPrompt>> EncodePrompts(const Stage& stage,
                                                         const PictureSpec& resolved,
                                                         device::Stream& stream, PendingWork& work);

// EncodePrompts, and runs of the stage's request part. Returns the inputs of the stage's UNet,
// [rows, n], by the step graph's names; rows of a picture are [unconditional, conditional] with
// guidance, else [conditional]. `work` holds the encoders' results. `resolved` came from
// Pipeline::Resolve.
absl::StatusOr<NamedBuffers> MakeConditioning(const Stage& stage, const PictureSpec& resolved,
                                              device::Stream& stream, PendingWork& work);

// The added time ids of one row: sizes as (height, width), then the aesthetic score where the
// checkpoint wants it.
std::vector<float> TimeIds(const SdxlModel& model, const PictureSpec& resolved, bool conditional);

// Tokens of the longest prompt that no text encoder reads.
int64_t DroppedTokens(const Plan& plan);

}  // namespace latentd::pipeline
