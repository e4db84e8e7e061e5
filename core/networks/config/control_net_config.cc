#include "core/networks/config/control_net_config.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_replace.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/json.h"

namespace latentd::networks {
namespace {

using nlohmann::json;

constexpr absl::string_view kHintChannels = "conditioning_channels";
constexpr absl::string_view kHintFeatures = "conditioning_embedding_out_channels";
constexpr absl::string_view kChannelOrder = "controlnet_conditioning_channel_order";
constexpr absl::string_view kPooled = "global_pool_conditions";
constexpr absl::string_view kMiddle = "mid_block_type";
constexpr absl::string_view kDownTypes = "down_block_types";

constexpr absl::string_view kControlMustBeOff[] = {kPooled};

// Blocks of a way up that mirrors the way down, of which a ControlNet has none and says nothing.
json MirroredTypes(const json& down) {
  json up = json::array();
  for (auto type = down.rbegin(); type != down.rend(); ++type) {
    if (!type->is_string()) return up;
    up.push_back(absl::StrReplaceAll(type->get<std::string>(), {{"Down", "Up"}}));
  }
  return up;
}

// The same file as that of a UNet: without what is a ControlNet's alone.
json AsUnet(json config) {
  for (const absl::string_view own : {kHintChannels, kHintFeatures, kChannelOrder, kPooled}) {
    config.erase(std::string(own));
  }
  config["_class_name"] = "UNet2DConditionModel";
  const auto down = config.find(std::string(kDownTypes));
  if (down != config.end() && down->is_array()) config["up_block_types"] = MirroredTypes(*down);
  return config;
}

absl::Status ReadHint(absl::string_view text, absl::string_view source, ControlNetConfig& config) {
  ASSIGN_OR_RETURN(ConfigReader reader, ConfigReader::Parse(text, source, "ControlNetModel"));
  config.hint_channels = reader.Integer(kHintChannels, 3, {3, 3});
  config.hint_features = reader.Integers(kHintFeatures, {16, 32, 96, 256}, {1, 1 << 16});
  const bool is_bgr = reader.Choice(kChannelOrder, "rgb", {"rgb", "bgr"}) == "bgr";
  if (is_bgr) config.channel_order = ControlNetConfig::ChannelOrder::kBgr;
  if (reader.IsNull(kMiddle)) reader.Mistake(kMiddle, "is null; a ControlNet has a middle");
  return reader.Finish({.must_be_off = kControlMustBeOff, .harmless = {}});
}

}  // namespace

absl::StatusOr<ControlNetConfig> ParseControlNetConfig(absl::string_view text,
                                                       absl::string_view source) {
  ControlNetConfig config;
  RETURN_IF_ERROR(ReadHint(text, source, config));
  ASSIGN_OR_RETURN(json parsed, ParseJsonObject(text, source, ConfigReader::kMaxBytes));
  ASSIGN_OR_RETURN(config.unet,
                   ParseUnet2dConditionConfig(AsUnet(std::move(parsed)).dump(), source));
  config.unknown_fields = std::move(config.unet.unknown_fields);
  return config;
}

}  // namespace latentd::networks
