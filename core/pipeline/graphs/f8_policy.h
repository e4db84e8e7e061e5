// Policies of fp8: the weights of a UNet whose linears, or also convolutions, multiply 8-bit
// floats.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/precision.h"

namespace latentd::pipeline {

// Linears by the names of their weights, patterns as graph::Precision::f8_weights has them, in the
// order of a transformer block. All else stays as it is in bf16:
//
//   attn2.to_k, to_v    once a prompt; what they read, the text's states, has no bound, and its
//                       first token is fifty times as large as others
//   attn2.to_out.0      reads means of those values, which no weight bounds
//   proj_out            reads the residual stream, which has no bound
//   embeddings of time  little work, and what all else depends on
//   convolutions        AddF8Convolutions names some
absl::Span<const absl::string_view> F8Linears();

// Names the convolutions of residual blocks in a precision, which read a group norm and SiLU. The
// others stay:
//
//   conv_in, conv_out, conv_shortcut   the most sensitive layers, and what they read has no bound
//   downsamplers, upsamplers           read the residual stream, which has no bound
//   down_blocks.0.resnets.0.conv2      the most sensitive of residual blocks, by measurements that
//   the last block before conv_out     were published, and both of this block: SDXL's
//                                      up_blocks.2.resnets.2, SD 1.5's up_blocks.3.resnets.2, those
//                                      of Stable Video Diffusion's of that number, too
//   convolutions over frames           have no kernel of 8 bits (core/backends/cuda)
void AddF8Convolutions(graph::Precision& precision);

}  // namespace latentd::pipeline
