// Policy of fp8: the weights of a UNet whose linears multiply 8-bit floats.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace latentd::pipeline {

// Linears by the names of their weights, patterns as graph::Precision::f8_weights has them, in the
// order of a transformer block. All else stays as it is in bf16:
//
//   attn2.to_k, to_v    once a prompt; what they read, the text's states, has no bound, and its
//                       first token is fifty times as large as others
//   attn2.to_out.0      reads means of those values, which no weight bounds
//   proj_out            reads the residual stream, which has no bound
//   embeddings of time  little work, and what all else depends on
//   convolutions        the first, the last and shortcuts are the most sensitive layers; for the
//                       others there is no kernel yet
absl::Span<const absl::string_view> F8Linears();

}  // namespace latentd::pipeline
