// In what each component's graphs compute: what was asked for, as far as the checkpoint's
// config.json lets it.
//
// Pure functions.
#pragma once

#include "absl/strings/string_view.h"
#include "core/graph/precision.h"
#include "core/pipeline/graphs/vae_graph.h"
#include "core/pipeline/spec/models/components.h"

namespace latentd::pipeline {

// The wanted dtype; f32 where none was asked for.
device::DType DTypeOf(const ComponentDTypes& wanted, absl::string_view component);

// Precision of a component. kF8E4M3 is bf16 in which linears of a UNet (f8_policy.h) multiply 8-bit
// floats; other components are in bf16 then. In a VAE with force_upcast, layers that overflow fp16
// stay f32, as in diffusers: all of the encoder; of the decoder everything from the first
// upsampling block on. (upcast_attention is part of the UNet's graph: core/networks.)
//
// F8Precision is the precision that kF8E4M3 stands for.
graph::Precision F8Precision(absl::string_view component);
graph::Precision PrecisionOf(const ComponentDTypes& wanted, absl::string_view component,
                             const VaeConfig& vae);

}  // namespace latentd::pipeline
