// The fields that diffusers' ControlNetModel and ControlNetUnionModel read from their config.json,
// as far as these networks have them: those of the UNet whose way down they copy, and their own. A
// value beyond that is an error that names it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/networks/config/unet_2d_condition_config.h"

namespace latentd::networks {

struct ControlNetConfig {
  static constexpr int64_t kMostImageTypes = 64;

  // Order of the channels of the hint's image, as the network was trained with them.
  enum class ChannelOrder : uint8_t { kRgb, kBgr };

  Unet2dConditionConfig unet;  // nothing reads its way up
  int64_t hint_channels = 3;   // conditioning_channels
  ChannelOrder channel_order = ChannelOrder::kRgb;
  // Channels of the hint's convolutions, from the largest image; each but the first halves it.
  std::vector<int64_t> hint_features = {16, 32, 96, 256};
  // ControlNet-Union's: one network for images of several types, of which each is told with its
  // type. num_control_type; 0: the network is for images of one type.
  int64_t image_types = 0;
  int64_t image_layers = 1;  // num_trans_layer: layers between an image's mean and what it adds

  // Fields that nothing reads (ConfigReader::unknown_fields).
  std::vector<std::string> unknown_fields;

  bool is_union() const { return image_types > 0; }
  // Pixels of the hint along a side, for each of the latents.
  int64_t hint_scale() const { return int64_t{1} << (hint_features.size() - 1); }
};

// `source` names the file in errors.
absl::StatusOr<ControlNetConfig> ParseControlNetConfig(absl::string_view json,
                                                       absl::string_view source);

}  // namespace latentd::networks
