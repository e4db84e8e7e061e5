// Prompts and settings to the inputs of a UNet, as the model's family has them.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/device/device.h"
#include "core/pipeline/picture/picture.h"
#include "core/pipeline/picture/run_graph.h"
#include "core/pipeline/picture/stage.h"
#include "core/pipeline/spec/request/inputs.h"

namespace latentd::pipeline {

// Inputs of the request graph that depend on one row's prompts, by name.
using EncodedPrompt = NamedBuffers;

// Enqueues runs of the stage's text encoders, for each row of a picture; of a row that reads
// embeddings copies of those in `inputs`, which may be null where none does.
absl::StatusOr<std::vector<EncodedPrompt>> EncodePrompts(const Stage& stage, const Inputs* inputs,
                                                         device::Stream& stream, PendingWork& work);

// The same where all rows have prompts or zeros, to memory of the host. A row of zeros has nothing;
// one whose tokens have no weights has no origin of them.
absl::StatusOr<std::vector<EncodedPrompt>> EncodeToHost(const Stage& stage, device::Stream& stream,
                                                        PendingWork& work);

// EncodePrompts, and runs of the stage's request part. Returns the inputs of the stage's UNet,
// [rows, n], by the step graph's names; rows of a picture are [unconditional, conditional] with
// guidance, else [conditional]. `work` holds the encoders' results. Sets the conditioning of
// `controls`, those of the stage, alike.
absl::StatusOr<NamedBuffers> MakeConditioning(const Stage& stage, const Inputs* inputs,
                                              device::Stream& stream, PendingWork& work,
                                              absl::Span<RequestControl> controls = {});

}  // namespace latentd::pipeline
