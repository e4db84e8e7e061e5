#include "core/networks/config/unet_spatio_temporal_config.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/networks/layers/spatio_temporal_resnet.h"

namespace latentd::networks {
namespace {

constexpr Range kClipChannels = {1, 1 << 16};
constexpr int64_t kMostFrames = 1024;
// Heads of that size, where config.json does not say how many there are: diffusers' default.
constexpr int64_t kHeadSize = 64;

// True for blocks with transformers.
std::vector<bool> ReadTransformerBlocks(ConfigReader& reader, absl::string_view name,
                                        std::vector<std::string> fallback, absl::string_view plain,
                                        absl::string_view attention, size_t blocks) {
  std::vector<bool> found;
  for (const std::string& type : reader.Choices(name, std::move(fallback), {plain, attention})) {
    found.push_back(type == attention);
  }
  if (found.size() != blocks) {
    reader.Mistake(name, absl::StrCat("has ", found.size(), " elements; supported: ", blocks,
                                      ", as many as block_out_channels"));
    found.resize(blocks, true);
  }
  return found;
}

void CheckClipBlock(ConfigReader& reader, const UnetSpatioTemporalConfig::Block& block) {
  if (block.channels % kClipGroups != 0) {
    reader.Mistake("block_out_channels",
                   absl::StrCat("has ", block.channels, "; supported: multiples of ", kClipGroups,
                                ", the groups of its norms"));
  }
  if (block.channels % block.heads != 0) {
    reader.Mistake("num_attention_heads",
                   absl::StrCat("asks for ", block.heads, " heads of ", block.channels,
                                " channels; supported: divisors of the channels"));
  }
}

void ReadClipBlocks(ConfigReader& reader, UnetSpatioTemporalConfig& config) {
  const auto channels =
      reader.Integers("block_out_channels", {320, 640, 1280, 1280}, kClipChannels);
  const size_t count = channels.size();
  const std::string down = "CrossAttnDownBlockSpatioTemporal";
  const std::string up = "CrossAttnUpBlockSpatioTemporal";
  const auto attends_down = ReadTransformerBlocks(reader, "down_block_types",
                                                  {down, down, down, "DownBlockSpatioTemporal"},
                                                  "DownBlockSpatioTemporal", down, count);
  const auto attends_up =
      ReadTransformerBlocks(reader, "up_block_types", {"UpBlockSpatioTemporal", up, up, up},
                            "UpBlockSpatioTemporal", up, count);
  const auto layers = reader.PerBlock("layers_per_block", 2, count, {1, 16});
  const auto heads = reader.PerBlock("num_attention_heads", 0, count, {1, 1024});
  const auto transformers = reader.PerBlock("transformer_layers_per_block", 1, count, {1, 64});
  for (size_t i = 0; i < count; ++i) {
    const int64_t by_size = std::max<int64_t>(1, channels[i] / kHeadSize);
    config.blocks.push_back({.channels = channels[i],
                             .layers = layers[i],
                             .heads = heads[i] == 0 ? by_size : heads[i],
                             .transformer_layers = transformers[i],
                             .attends_down = attends_down[i],
                             .attends_up = attends_up[count - 1 - i]});
    CheckClipBlock(reader, config.blocks.back());
  }
}

void ReadClipConditions(ConfigReader& reader, UnetSpatioTemporalConfig& config) {
  const auto dims =
      reader.PerBlock("cross_attention_dim", 1024, config.blocks.size(), kClipChannels);
  config.cross_attention_dim = dims.front();
  if (absl::c_any_of(dims, [&](int64_t dim) { return dim != dims.front(); })) {
    reader.Mistake("cross_attention_dim", "differs between blocks; supported: one value for all");
  }
  config.addition_time_embed_dim = reader.Integer("addition_time_embed_dim", 256, {2, 1 << 16});
  config.addition_input_dim =
      reader.Integer("projection_class_embeddings_input_dim", 768, kClipChannels);
  if (config.addition_input_dim % config.addition_time_embed_dim != 0) {
    reader.Mistake("projection_class_embeddings_input_dim",
                   absl::StrCat("is ", config.addition_input_dim,
                                "; supported: multiples of addition_time_embed_dim, ",
                                config.addition_time_embed_dim));
  }
}

}  // namespace

absl::StatusOr<UnetSpatioTemporalConfig> ParseUnetSpatioTemporalConfig(absl::string_view json,
                                                                       absl::string_view source) {
  ASSIGN_OR_RETURN(ConfigReader reader,
                   ConfigReader::Parse(json, source, "UNetSpatioTemporalConditionModel"));
  UnetSpatioTemporalConfig config;
  config.sample_size = reader.SizeOrNull("sample_size");
  config.in_channels = reader.Integer("in_channels", 8, kClipChannels);
  config.out_channels = reader.Integer("out_channels", 4, kClipChannels);
  config.num_frames = reader.Integer("num_frames", 25, {1, kMostFrames});
  ReadClipBlocks(reader, config);
  ReadClipConditions(reader, config);
  RETURN_IF_ERROR(reader.Finish(kUnreadByUnetSpatioTemporal));
  config.unknown_fields = reader.unknown_fields();
  return config;
}

}  // namespace latentd::networks
