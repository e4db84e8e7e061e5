#include "core/networks/config/control_net_config.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
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
constexpr absl::string_view kClass = "_class_name";
constexpr absl::string_view kImageTypes = "num_control_type";
constexpr absl::string_view kImageLayers = "num_trans_layer";
constexpr absl::string_view kImageFeatures = "num_trans_channel";
constexpr absl::string_view kImageHeads = "num_trans_head";
constexpr absl::string_view kAddedFeatures = "num_proj_channel";

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
  for (const absl::string_view own :
       {kHintChannels, kHintFeatures, kChannelOrder, kPooled, kImageTypes, kImageLayers,
        kImageFeatures, kImageHeads, kAddedFeatures}) {
    config.erase(std::string(own));
  }
  config["_class_name"] = "UNet2DConditionModel";
  const auto down = config.find(std::string(kDownTypes));
  if (down != config.end() && down->is_array()) config["up_block_types"] = MirroredTypes(*down);
  return config;
}

// True for ControlNetUnionModel, whatever its author called the class.
bool IsUnion(const json& config) {
  const auto name = config.find(std::string(kClass));
  return config.contains(std::string(kImageTypes)) ||
         (name != config.end() && *name == "ControlNetUnionModel");
}

// Reads a union's own fields. Its vectors of an image are as wide as the UNet's first block.
void ReadUnion(ConfigReader& reader, ControlNetConfig& config) {
  config.image_types = reader.Integer(kImageTypes, 6, {1, ControlNetConfig::kMostImageTypes});
  config.image_layers = reader.Integer(kImageLayers, 1, {0, 1 << 6});
  reader.Integer(kImageHeads, 8, {1, 1 << 16});  // heads change nothing for one token
  const std::vector<int64_t> blocks =
      reader.Integers("block_out_channels", {320, 640, 1280, 1280}, {1, 1 << 16});
  for (const absl::string_view field : {kImageFeatures, kAddedFeatures}) {
    const int64_t features = reader.Integer(field, 320, {1, 1 << 16});
    if (features == blocks.front()) continue;
    reader.Mistake(field, absl::StrCat("is ", features, ", and the first block has ",
                                       blocks.front(), " channels"));
  }
}

absl::Status ReadHint(absl::string_view text, absl::string_view source, bool is_union,
                      ControlNetConfig& config) {
  // Unions have been published under several names of their class.
  ASSIGN_OR_RETURN(ConfigReader reader, is_union
                                            ? ConfigReader::ParseAnyClass(text, source)
                                            : ConfigReader::Parse(text, source, "ControlNetModel"));
  config.hint_channels = reader.Integer(kHintChannels, 3, {3, 3});
  if (is_union) {
    config.hint_features = {48, 96, 192, 384};
    ReadUnion(reader, config);
  }
  config.hint_features = reader.Integers(kHintFeatures, config.hint_features, {1, 1 << 16});
  // diffusers' ControlNetUnionModel has no other order than red, green and blue.
  const bool is_bgr = (is_union ? reader.Choice(kChannelOrder, "rgb", {"rgb"})
                                : reader.Choice(kChannelOrder, "rgb", {"rgb", "bgr"})) == "bgr";
  if (is_bgr) config.channel_order = ControlNetConfig::ChannelOrder::kBgr;
  if (reader.IsNull(kMiddle)) reader.Mistake(kMiddle, "is null; a ControlNet has a middle");
  return reader.Finish({.must_be_off = kControlMustBeOff, .harmless = {}});
}

}  // namespace

absl::StatusOr<ControlNetConfig> ParseControlNetConfig(absl::string_view text,
                                                       absl::string_view source) {
  ControlNetConfig config;
  ASSIGN_OR_RETURN(json parsed, ParseJsonObject(text, source, ConfigReader::kMaxBytes));
  const bool is_union = IsUnion(parsed);
  RETURN_IF_ERROR(ReadHint(text, source, is_union, config));
  ASSIGN_OR_RETURN(config.unet,
                   ParseUnet2dConditionConfig(AsUnet(std::move(parsed)).dump(), source));
  if (is_union && !config.unet.text_time) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, ": field addition_embed_type has to be text_time in a ControlNet-Union"));
  }
  config.unknown_fields = std::move(config.unet.unknown_fields);
  return config;
}

}  // namespace latentd::networks
