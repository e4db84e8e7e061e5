#include "core/networks/unet_2d_blocks.h"

namespace latentd::networks {
namespace {

ResnetOptions ResnetOf(const Unet2dConditionConfig& config, int64_t channels, double scale = 1) {
  return {.out_channels = channels,
          .groups = config.norm_num_groups,
          .epsilon = config.norm_eps,
          .activation = config.activation,
          .time_shift = config.time_shift,
          .output_scale = scale};
}

Transformer2dOptions TransformerOf(const Unet2dConditionConfig& config, int64_t heads,
                                   int64_t layers, FirstAttention first) {
  return {.heads = heads,
          .layers = layers,
          .groups = config.norm_num_groups,
          .projection = config.projection,
          .first_attention = first,
          .upcast_attention = config.upcast_attention};
}

}  // namespace

Value UnetDownBlock(const Scope& unet, const Unet2dConditionConfig& config, size_t index, Value x,
                    const UnetConditions& conditions, std::vector<Value>& skips) {
  const Scope scope = unet.Child("down_blocks", index);
  const Unet2dConditionConfig::Block& block = config.blocks[index];
  const std::vector<int64_t>& transformers = config.down_transformers[index];
  const ResnetOptions resnet = ResnetOf(config, block.channels);
  for (int64_t i = 0; i < block.layers; ++i) {
    x = ResnetBlock(scope.Child("resnets", i), x, conditions.time, resnet);
    if (!transformers.empty()) {
      x = Transformer2d(scope.Child("attentions", i), x, conditions.text,
                        TransformerOf(config, block.heads, transformers[i], block.first_attention),
                        conditions.images->Take(transformers[i]));
    }
    skips.push_back(x);
  }
  if (index + 1 < config.blocks.size()) {
    x = Downsample(scope.Child("downsamplers.0"), x, config.downsample_padding);
    skips.push_back(x);
  }
  return x;
}

Value UnetMiddleBlock(const Scope& unet, const Unet2dConditionConfig& config, Value x,
                      const UnetConditions& conditions) {
  using Middle = Unet2dConditionConfig::MiddleBlock;
  if (config.middle == Middle::kNone) return x;
  const Scope scope = unet.Child("mid_block");
  const Unet2dConditionConfig::Block& block = config.blocks.back();
  const ResnetOptions resnet = ResnetOf(config, block.channels, config.middle_scale);
  x = ResnetBlock(scope.Child("resnets.0"), x, conditions.time, resnet);
  if (config.middle == Middle::kResnet) return x;
  // only_cross_attention does not reach the middle.
  x = Transformer2d(scope.Child("attentions.0"), x, conditions.text,
                    TransformerOf(config, block.heads, config.middle_transformer_layers,
                                  FirstAttention::kToItself),
                    conditions.images->Take(config.middle_transformer_layers));
  return ResnetBlock(scope.Child("resnets.1"), x, conditions.time, resnet);
}

Value UnetUpBlock(const Scope& unet, const Unet2dConditionConfig& config, size_t index, Value x,
                  const UnetConditions& conditions, std::vector<Value>& skips) {
  GraphBuilder& b = unet.builder();
  const Scope scope = unet.Child("up_blocks", index);
  const Unet2dConditionConfig::Block& block = config.blocks[config.blocks.size() - 1 - index];
  const std::vector<int64_t>& transformers = config.up_transformers[index];
  const ResnetOptions resnet = ResnetOf(config, block.channels);
  for (int64_t i = 0; i < block.layers + 1; ++i) {
    x = b.Concat({x, skips.back()}, 1);
    skips.pop_back();
    x = ResnetBlock(scope.Child("resnets", i), x, conditions.time, resnet);
    if (!transformers.empty()) {
      x = Transformer2d(scope.Child("attentions", i), x, conditions.text,
                        TransformerOf(config, block.heads, transformers[i], block.first_attention),
                        conditions.images->Take(transformers[i]));
    }
  }
  if (skips.empty()) return x;
  return Upsample(scope.Child("upsamplers.0"), x, Dimension(b, skips.back(), 2),
                  Dimension(b, skips.back(), 3));
}

}  // namespace latentd::networks
