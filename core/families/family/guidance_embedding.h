// The guidance scale as an input of the network, where the network was distilled from a guided one
// and told how strongly: UNets with time_cond_proj_dim, of latent consistency models. It takes the
// place of classifier-free guidance.
//
// It is a row of the request part, so that images of different guidance share steps.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "core/families/family/family.h"
#include "core/graph/graph_builder.h"

namespace latentd::families {

// get_guidance_scale_embedding of diffusers' LCM pipelines, in float32 as there: with
// w = 1000 (guidance_scale - 1) and h = features / 2 the sines of w / 10000^(i / (h - 1)) for each
// i below h, their cosines, and a zero where `features` is odd. REQUIRES: features >= 4.
std::vector<float> GuidanceEmbedding(double guidance_scale, int64_t features);

// Adds the input of the request graph for it, [rows, time_cond_proj_dim]; kNone where the network
// has none.
graph::Value GuidanceInput(graph::GraphBuilder& builder, const ModelConfigs& configs, int64_t rows);

// Adds a row's value for that input, where there is one.
void AddGuidance(const ModelConfigs& configs, const pipeline::PictureSpec& resolved,
                 RowInputs& row);

}  // namespace latentd::families
