// The fields that diffusers' ControlNetModel reads from its config.json, as far as this network has
// them: those of the UNet whose way down it copies, and its own. A value beyond that is an error
// that names it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/networks/config/unet_2d_condition_config.h"

namespace latentd::networks {

struct ControlNetConfig {
  // Order of the channels of the hint's image, as the network was trained with them.
  enum class ChannelOrder : uint8_t { kRgb, kBgr };

  Unet2dConditionConfig unet;  // nothing reads its way up
  int64_t hint_channels = 3;   // conditioning_channels
  ChannelOrder channel_order = ChannelOrder::kRgb;
  // Channels of the hint's convolutions, from the largest image; each but the first halves it.
  std::vector<int64_t> hint_features = {16, 32, 96, 256};

  // Fields that nothing reads (ConfigReader::unknown_fields).
  std::vector<std::string> unknown_fields;

  // Pixels of the hint along a side, for each of the latents.
  int64_t hint_scale() const { return int64_t{1} << (hint_features.size() - 1); }
};

// `source` names the file in errors.
absl::StatusOr<ControlNetConfig> ParseControlNetConfig(absl::string_view json,
                                                       absl::string_view source);

}  // namespace latentd::networks
