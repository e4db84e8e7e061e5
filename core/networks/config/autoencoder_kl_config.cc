#include "core/networks/config/autoencoder_kl_config.h"

#include <string>
#include <utility>

#include "core/base/errors/status_macros.h"

namespace latentd::networks {
namespace {

constexpr Range kChannels = {1, 1 << 16};

void CheckBlocks(ConfigReader& reader, absl::string_view name, absl::string_view type,
                 size_t blocks) {
  const size_t count = reader.Choices(name, {std::string(type)}, {type}).size();
  if (count == blocks) return;
  reader.Mistake(name, absl::StrCat("has ", count, " elements; supported: ", blocks,
                                    ", as many as block_out_channels"));
}

void ReadBlocks(ConfigReader& reader, AutoencoderKlConfig& config) {
  config.block_out_channels = reader.Integers("block_out_channels", {64}, kChannels);
  const size_t blocks = config.block_out_channels.size();
  CheckBlocks(reader, "down_block_types", "DownEncoderBlock2D", blocks);
  CheckBlocks(reader, "up_block_types", "UpDecoderBlock2D", blocks);
  config.layers_per_block = reader.Integer("layers_per_block", 1, {1, 16});
  config.norm_num_groups = reader.Integer("norm_num_groups", 32, kChannels);
  for (int64_t channels : config.block_out_channels) {
    if (channels % config.norm_num_groups == 0) continue;
    reader.Mistake("block_out_channels",
                   absl::StrCat("has ", channels, "; supported: multiples of norm_num_groups, ",
                                config.norm_num_groups));
  }
}

std::optional<std::vector<double>> PerLatentChannel(ConfigReader& reader, absl::string_view name,
                                                    int64_t channels) {
  auto numbers = reader.NumbersOrNull(name);
  if (numbers && static_cast<int64_t>(numbers->size()) != channels) {
    reader.Mistake(name, absl::StrCat("has ", numbers->size(), " elements; supported: ", channels,
                                      ", one for each of latent_channels"));
  }
  return numbers;
}

void ReadScaling(ConfigReader& reader, AutoencoderKlConfig& config) {
  config.scaling_factor = reader.Positive("scaling_factor", 0.18215);
  config.shift_factor = reader.NumberOrNull("shift_factor");
  config.latents_mean = PerLatentChannel(reader, "latents_mean", config.latent_channels);
  config.latents_std = PerLatentChannel(reader, "latents_std", config.latent_channels);
  for (double deviation : config.latents_std.value_or(std::vector<double>())) {
    if (deviation <= 0) reader.Mistake("latents_std", "has a value that is not greater than 0");
  }
  config.force_upcast = reader.Boolean("force_upcast", true);
}

}  // namespace

absl::StatusOr<AutoencoderKlConfig> ParseAutoencoderKlConfig(absl::string_view json,
                                                             absl::string_view source) {
  ASSIGN_OR_RETURN(ConfigReader reader, ConfigReader::Parse(json, source, "AutoencoderKL"));
  AutoencoderKlConfig config;
  config.in_channels = reader.Integer("in_channels", 3, kChannels);
  config.out_channels = reader.Integer("out_channels", 3, kChannels);
  config.latent_channels = reader.Integer("latent_channels", 4, kChannels);
  ReadBlocks(reader, config);
  config.activation =
      ParseActivation(reader.Choice("act_fn", "silu", {"silu", "swish", "gelu", "relu"}));
  config.use_quant_conv = reader.Boolean("use_quant_conv", true);
  config.use_post_quant_conv = reader.Boolean("use_post_quant_conv", true);
  config.mid_block_add_attention = reader.Boolean("mid_block_add_attention", true);
  ReadScaling(reader, config);
  config.sample_size = reader.SizeOrNull("sample_size").value_or(ConfigReader::Size{32, 32}).height;
  RETURN_IF_ERROR(reader.Finish(kUnreadByAutoencoderKl));
  config.unknown_fields = reader.unknown_fields();
  return config;
}

}  // namespace latentd::networks
