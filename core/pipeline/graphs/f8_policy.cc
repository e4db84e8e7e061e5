#include "core/pipeline/graphs/f8_policy.h"

namespace latentd::pipeline {
namespace {

// Each with what writes the operand that the linear reads, of which its scale is made.
constexpr absl::string_view kLinears[] = {
    "unet/*.proj_in.weight",           // group norm
    "unet/*.attn1.to_q.weight",        // layer norm
    "unet/*.attn1.to_k.weight",        // layer norm
    "unet/*.attn1.to_v.weight",        // layer norm
    "unet/*.attn1.to_out.0.weight",    // self-attention
    "unet/*.attn2.to_q.weight",        // layer norm
    "unet/*.ff.net.0.proj.weight",     // layer norm
    "unet/*.ff.net.2.weight",          // GEGLU
    "unet/*.ff_in.net.0.proj.weight",  // layer norm, of a video's frames
    "unet/*.ff_in.net.2.weight",       // GEGLU
};

// Each reads a group norm and SiLU.
constexpr absl::string_view kConvolutions[] = {
    "unet/*.resnets.*.conv1.weight",
    "unet/*.resnets.*.conv2.weight",
};
constexpr absl::string_view kExceptions[] = {
    "unet/down_blocks.0.resnets.0.conv2.weight",
    "unet/up_blocks.2.resnets.2.conv1.weight",
    "unet/up_blocks.2.resnets.2.conv2.weight",
    "unet/up_blocks.3.resnets.2.conv1.weight",
    "unet/up_blocks.3.resnets.2.conv2.weight",
    // The same of a video's frames; and its convolutions over frames.
    "unet/down_blocks.0.resnets.0.*.conv2.weight",
    "unet/up_blocks.3.resnets.2.*.conv1.weight",
    "unet/up_blocks.3.resnets.2.*.conv2.weight",
    "unet/*.temporal_res_block.*",
};

}  // namespace

absl::Span<const absl::string_view> F8Linears() { return kLinears; }

void AddF8Convolutions(graph::Precision& precision) {
  for (const absl::string_view weights : kConvolutions) {
    precision.f8_convolutions.emplace_back(weights);
  }
  for (const absl::string_view weights : kExceptions) precision.f8_exceptions.emplace_back(weights);
}

}  // namespace latentd::pipeline
