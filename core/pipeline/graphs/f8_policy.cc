#include "core/pipeline/graphs/f8_policy.h"

namespace latentd::pipeline {
namespace {

// Each with what writes the operand that the linear reads, of which its scale is made.
constexpr absl::string_view kLinears[] = {
    "unet/*.proj_in.weight",         // group norm
    "unet/*.attn1.to_q.weight",      // layer norm
    "unet/*.attn1.to_k.weight",      // layer norm
    "unet/*.attn1.to_v.weight",      // layer norm
    "unet/*.attn1.to_out.0.weight",  // self-attention
    "unet/*.attn2.to_q.weight",      // layer norm
    "unet/*.ff.net.0.proj.weight",   // layer norm
    "unet/*.ff.net.2.weight",        // GEGLU
};

}  // namespace

absl::Span<const absl::string_view> F8Linears() { return kLinears; }

}  // namespace latentd::pipeline
