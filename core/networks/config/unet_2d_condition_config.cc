#include "core/networks/config/unet_2d_condition_config.h"

#include <algorithm>
#include <string>

#include "absl/strings/strip.h"
#include "core/base/errors/status_macros.h"

namespace latentd::networks {
namespace {

constexpr int64_t kMaxHeads = 1024;
constexpr Range kLayers = {1, 16};
constexpr Range kTransformerLayers = {0, 64};
constexpr Range kChannels = {1, 1 << 16};
// Sinusoids of one frequency have no embedding in diffusers: it divides by their number less one.
constexpr Range kGuidanceFeatures = {4, 1 << 16};

std::optional<Activation> ActivationOrNull(ConfigReader& reader, absl::string_view name) {
  const auto found = reader.ChoiceOrNull(name, {"silu", "swish", "gelu", "relu"});
  if (!found) return std::nullopt;
  return ParseActivation(*found);
}

FirstAttention FirstAttentionIf(bool only_cross) {
  return only_cross ? FirstAttention::kToText : FirstAttention::kToItself;
}

// True for blocks with attention; `spellings` are the plain block and the one with it (with the
// prefix that old checkpoints give them).
std::vector<bool> ReadAttention(ConfigReader& reader, absl::string_view name,
                                std::vector<std::string> fallback, absl::string_view plain,
                                absl::string_view attention) {
  const std::string old_plain = "UNetRes" + std::string(plain);
  const std::string old_attention = "UNetRes" + std::string(attention);
  std::vector<bool> found;
  for (const std::string& type :
       reader.Choices(name, std::move(fallback), {plain, attention, old_plain, old_attention})) {
    found.push_back(absl::StripPrefix(type, "UNetRes") == attention);
  }
  return found;
}

void CheckCount(ConfigReader& reader, absl::string_view name, size_t count, size_t blocks) {
  if (count == blocks) return;
  reader.Mistake(name, absl::StrCat("has ", count, " elements; supported: ", blocks,
                                    ", as many as block_out_channels"));
}

void CheckBlock(ConfigReader& reader, const Unet2dConditionConfig::Block& block, int64_t groups) {
  if (block.heads > block.channels) {
    reader.Mistake("attention_head_dim",
                   absl::StrCat("asks for ", block.heads, " heads of ", block.channels,
                                " channels; supported: at most one head for each channel"));
  }
  if (block.channels % groups != 0) {
    reader.Mistake("block_out_channels",
                   absl::StrCat("has ", block.channels,
                                "; supported: multiples of norm_num_groups, ", groups));
  }
}

std::vector<std::vector<int64_t>> OnlyWhere(const std::vector<bool>& attention,
                                            std::vector<std::vector<int64_t>> layers) {
  for (size_t i = 0; i < layers.size(); ++i) {
    if (i >= attention.size() || !attention[i]) layers[i].clear();
  }
  return layers;
}

constexpr absl::string_view kTransformerLayersName = "transformer_layers_per_block";

// The way up where the config does not say: as on the way down, in reverse, with one layer more for
// each block.
std::vector<std::vector<int64_t>> Mirror(ConfigReader& reader,
                                         const std::vector<std::vector<int64_t>>& downwards,
                                         const std::vector<int64_t>& up_layers) {
  std::vector<std::vector<int64_t>> upwards;
  for (const int64_t layers : up_layers) {
    const std::vector<int64_t>& mirrored = downwards[downwards.size() - 1 - upwards.size()];
    const int64_t first = mirrored.front();
    if (std::count(mirrored.begin(), mirrored.end(), first) != std::ssize(mirrored)) {
      reader.Mistake(kTransformerLayersName,
                     "differs within a block, which needs reverse_transformer_layers_per_block");
    }
    upwards.emplace_back(layers, first);
  }
  return upwards;
}

void ReadTransformers(ConfigReader& reader, const std::vector<bool>& down,
                      const std::vector<bool>& up, Unet2dConditionConfig& config) {
  std::vector<int64_t> layers, up_layers;
  std::vector<std::vector<int64_t>> one_each;
  for (const auto& block : config.blocks) {
    layers.push_back(block.layers);
    up_layers.insert(up_layers.begin(), block.layers + 1);
    one_each.emplace_back(block.layers, 1);
  }
  auto downwards =
      reader.PerLayer(kTransformerLayersName, layers, kTransformerLayers).value_or(one_each);
  auto upwards =
      reader.PerLayer("reverse_transformer_layers_per_block", up_layers, kTransformerLayers);
  if (!upwards) upwards = Mirror(reader, downwards, up_layers);
  config.middle_transformer_layers = downwards.back().front();
  config.down_transformers = OnlyWhere(down, std::move(downwards));
  config.up_transformers = OnlyWhere(up, *std::move(upwards));
}

void ReadBlocks(ConfigReader& reader, Unet2dConditionConfig& config) {
  const auto channels = reader.Integers("block_out_channels", {320, 640, 1280, 1280}, kChannels);
  const size_t count = channels.size();
  const auto down = ReadAttention(
      reader, "down_block_types",
      {"CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"},
      "DownBlock2D", "CrossAttnDownBlock2D");
  const auto up =
      ReadAttention(reader, "up_block_types",
                    {"UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"},
                    "UpBlock2D", "CrossAttnUpBlock2D");
  CheckCount(reader, "down_block_types", down.size(), count);
  CheckCount(reader, "up_block_types", up.size(), count);
  const auto layers = reader.PerBlock("layers_per_block", 2, count, kLayers);
  const auto heads = reader.PerBlock("attention_head_dim", 8, count, {1, kMaxHeads});
  const auto only_cross = reader.PerBlock("only_cross_attention", false, count);
  for (size_t i = 0; i < count; ++i) {
    config.blocks.push_back({channels[i], layers[i], heads[i], FirstAttentionIf(only_cross[i])});
    CheckBlock(reader, config.blocks.back(), config.norm_num_groups);
  }
  ReadTransformers(reader, down, up, config);
}

void ReadMiddle(ConfigReader& reader, Unet2dConditionConfig& config) {
  using Middle = Unet2dConditionConfig::MiddleBlock;
  config.middle_scale = reader.Positive("mid_block_scale_factor", 1);
  if (reader.IsNull("mid_block_type")) {
    config.middle = Middle::kNone;
    return;
  }
  constexpr absl::string_view kDefault = "UNetMidBlock2DCrossAttn";
  const bool attention =
      reader.Choice("mid_block_type", kDefault, {kDefault, "UNetMidBlock2D"}) == kDefault;
  config.middle = attention ? Middle::kCrossAttention : Middle::kResnet;
}

void ReadTime(ConfigReader& reader, Unet2dConditionConfig& config) {
  const int64_t sinusoids = config.blocks.front().channels, frequencies = sinusoids / 2;
  reader.Choice("time_embedding_type", "positional", {"positional"});
  config.time_embedding_dim =
      reader.IntegerOrNull("time_embedding_dim", kChannels).value_or(4 * sinusoids);
  config.time_embedding_activation = ActivationOrNull(reader, "time_embedding_act_fn");
  config.timestep_post_activation = ActivationOrNull(reader, "timestep_post_act");
  config.time_cond_proj_dim =
      reader.IntegerOrNull("time_cond_proj_dim", kGuidanceFeatures).value_or(0);
  config.flip_sin_to_cos = reader.Boolean("flip_sin_to_cos", true);
  config.freq_shift = reader.Number("freq_shift", 0);
  if (config.freq_shift < 0 || config.freq_shift >= static_cast<double>(frequencies)) {
    reader.Mistake("freq_shift", absl::StrCat("is ", config.freq_shift,
                                              "; supported: from 0 to less than half of the first "
                                              "of block_out_channels"));
  }
}

void ReadAddedConditions(ConfigReader& reader, Unet2dConditionConfig& config) {
  config.text_time = reader.ChoiceOrNull("addition_embed_type", {"text_time"}).has_value();
  const auto time = reader.IntegerOrNull("addition_time_embed_dim", {2, 1 << 16});
  const auto input = reader.IntegerOrNull("projection_class_embeddings_input_dim", kChannels);
  config.addition_time_embed_dim = time.value_or(0);
  config.addition_input_dim = input.value_or(0);
  if (config.text_time && !time) {
    reader.Mistake("addition_time_embed_dim", "is missing; addition_embed_type text_time needs it");
  }
  if (config.text_time && !input) {
    reader.Mistake("projection_class_embeddings_input_dim",
                   "is missing; addition_embed_type text_time needs it");
  }
}

void ReadCrossAttention(ConfigReader& reader, Unet2dConditionConfig& config) {
  const auto dims = reader.PerBlock("cross_attention_dim", 1280, config.blocks.size(), kChannels);
  config.cross_attention_dim = dims.front();
  if (std::any_of(dims.begin(), dims.end(), [&](int64_t dim) { return dim != dims.front(); })) {
    reader.Mistake("cross_attention_dim", "differs between blocks; supported: one value for all");
  }
  config.projection = reader.Boolean("use_linear_projection", false) ? Projection::kLinear
                                                                     : Projection::kConvolution;
  config.upcast_attention = reader.Boolean("upcast_attention", false);
}

int64_t ReadKernel(ConfigReader& reader, absl::string_view name) {
  const int64_t kernel = reader.Integer(name, 3, {1, 15});
  if (kernel % 2 == 0) reader.Mistake(name, absl::StrCat("is ", kernel, "; supported: odd sizes"));
  return kernel;
}

void ReadConvolutions(ConfigReader& reader, Unet2dConditionConfig& config) {
  config.sample_size = reader.SizeOrNull("sample_size");
  config.in_channels = reader.Integer("in_channels", 4, kChannels);
  config.out_channels = reader.Integer("out_channels", 4, kChannels);
  config.conv_in_kernel = ReadKernel(reader, "conv_in_kernel");
  config.conv_out_kernel = ReadKernel(reader, "conv_out_kernel");
  config.downsample_padding = reader.Integer("downsample_padding", 1, {0, 1});
  config.center_input_sample = reader.Boolean("center_input_sample", false);
}

void ReadNorms(ConfigReader& reader, Unet2dConditionConfig& config) {
  config.norm_num_groups = reader.Integer("norm_num_groups", 32, kChannels);
  config.norm_eps = reader.Positive("norm_eps", 1e-5);
  config.activation =
      ParseActivation(reader.Choice("act_fn", "silu", {"silu", "swish", "gelu", "relu"}));
  const std::string shift =
      reader.Choice("resnet_time_scale_shift", "default", {"default", "scale_shift"});
  config.time_shift = shift == "default" ? TimeShift::kAdd : TimeShift::kScaleAndShift;
}

}  // namespace

absl::StatusOr<Unet2dConditionConfig> ParseUnet2dConditionConfig(absl::string_view json,
                                                                 absl::string_view source) {
  ASSIGN_OR_RETURN(ConfigReader reader, ConfigReader::Parse(json, source, "UNet2DConditionModel"));
  Unet2dConditionConfig config;
  ReadNorms(reader, config);
  ReadConvolutions(reader, config);
  ReadBlocks(reader, config);
  ReadMiddle(reader, config);
  ReadTime(reader, config);
  ReadAddedConditions(reader, config);
  ReadCrossAttention(reader, config);
  reader.Choice("attention_type", "default", {"default"});
  RETURN_IF_ERROR(reader.Finish(kUnreadByUnet2dCondition));
  config.unknown_fields = reader.unknown_fields();
  return config;
}

}  // namespace latentd::networks
