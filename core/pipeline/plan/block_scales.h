// Factors by blocks (core/pipeline/spec/request/block_scale.h) as factors of the attentions of one
// UNet.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/networks/config/unet_2d_condition_config.h"
#include "core/pipeline/spec/request/block_scale.h"

namespace latentd::pipeline {

// Factors of all attentions to text of the UNet (networks::CrossAttentionsOf), in their order: of
// their transformer. Of those that `scales` do not name, it is 0; of two scales that name one, that
// of its block counts before that of "down" or "up". As _maybe_expand_lora_scales of diffusers, but
// that a block which the UNet has not is INVALID_ARGUMENT, as are more or less numbers than the
// block has transformers, with a violation of FIELD[i] for each. A block without transformers is
// passed over with a warning.
absl::StatusOr<std::vector<double>> AttentionScales(const networks::Unet2dConditionConfig& unet,
                                                    absl::Span<const BlockScale> scales,
                                                    const std::string& field,
                                                    std::vector<std::string>& warnings);

}  // namespace latentd::pipeline
