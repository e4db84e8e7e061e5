// Prompts and settings to the inputs of a UNet, as the model's family has them.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/pipeline/spec/picture_spec.h"
#include "core/pipeline/units/run_graph.h"
#include "core/pipeline/units/stage.h"

namespace latentd::pipeline {

// Results of the text encoders for one row's prompts, by the request graph's input names.
using EncodedPrompt = NamedBuffers;

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

// Tokens of the longest prompt that no text encoder reads.
int64_t DroppedTokens(const Plan& plan);

}  // namespace latentd::pipeline
