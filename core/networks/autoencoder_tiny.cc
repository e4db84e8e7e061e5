#include "core/networks/autoencoder_tiny.h"

#include <algorithm>
#include <utility>

#include "core/base/errors/status_macros.h"
#include "core/networks/config/config_reader.h"

namespace latentd::networks {
namespace {

constexpr Range kChannels = {1, 1 << 16};

// The one width of all blocks: diffusers' network can only be evaluated where all are equal.
int64_t ReadChannels(ConfigReader& reader, absl::string_view name, size_t blocks) {
  const auto channels = reader.Integers(name, std::vector<int64_t>(blocks, 64), kChannels);
  const bool equal = std::all_of(channels.begin(), channels.end(),
                                 [&](int64_t each) { return each == channels.front(); });
  if (!equal || channels.size() != blocks) {
    reader.Mistake(name, absl::StrCat("is not ", blocks, " times the same number; supported: one ",
                                      "number for each block, all equal"));
  }
  return channels.front();
}

// TAESD's residual block: three convolutions beside the input, then relu whatever act_fn is.
Value TinyBlock(const Scope& scope, const AutoencoderTinyConfig& config, Value x) {
  GraphBuilder& b = scope.builder();
  const ConvolutionOptions conv = {.out_channels = Dimension(b, x, 1)};
  Value hidden = Activate(b, Convolution(scope.Child("conv.0"), x, conv), config.activation);
  hidden = Activate(b, Convolution(scope.Child("conv.2"), hidden, conv), config.activation);
  return b.Relu(b.Add(Convolution(scope.Child("conv.4"), hidden, conv), x));
}

Value TinyBlocks(const Scope& root, const AutoencoderTinyConfig& config, int64_t count,
                 int64_t& layer, Value x) {
  for (int64_t i = 0; i < count; ++i) x = TinyBlock(root.Child("layers", layer++), config, x);
  return x;
}

}  // namespace

absl::StatusOr<AutoencoderTinyConfig> ParseAutoencoderTinyConfig(absl::string_view json,
                                                                 absl::string_view source) {
  ASSIGN_OR_RETURN(ConfigReader reader, ConfigReader::Parse(json, source, "AutoencoderTiny"));
  AutoencoderTinyConfig config;
  config.in_channels = reader.Integer("in_channels", 3, kChannels);
  config.out_channels = reader.Integer("out_channels", 3, kChannels);
  config.latent_channels = reader.Integer("latent_channels", 4, kChannels);
  config.num_encoder_blocks = reader.Integers("num_encoder_blocks", {1, 3, 3, 3}, {0, 64});
  config.num_decoder_blocks = reader.Integers("num_decoder_blocks", {3, 3, 3, 1}, {0, 64});
  config.encoder_channels =
      ReadChannels(reader, "encoder_block_out_channels", config.num_encoder_blocks.size());
  config.decoder_channels =
      ReadChannels(reader, "decoder_block_out_channels", config.num_decoder_blocks.size());
  config.activation =
      ParseActivation(reader.Choice("act_fn", "relu", {"relu", "silu", "swish", "gelu"}));
  reader.Choice("upsample_fn", "nearest", {"nearest"});
  config.upsampling_scaling_factor = reader.Integer("upsampling_scaling_factor", 2, {1, 8});
  config.scaling_factor = reader.Positive("scaling_factor", 1);
  config.shift_factor = reader.Number("shift_factor", 0);
  RETURN_IF_ERROR(reader.Finish(kUnreadByAutoencoderTiny));
  config.unknown_fields = reader.unknown_fields();
  return config;
}

Value EncodeAutoencoderTiny(GraphBuilder& builder, const AutoencoderTinyConfig& config,
                            absl::string_view component, Value image) {
  if (!RequireImage(builder, "image", image, config.in_channels)) return image;
  const Scope root = Scope(builder, component).Child("encoder");
  const ConvolutionOptions first = {.out_channels = config.encoder_channels};
  const ConvolutionOptions halving = {
      .out_channels = config.encoder_channels, .stride = 2, .bias = Bias::kNone};
  // From [-1, 1] to TAESD's [0, 1].
  Value x = builder.Div(builder.Add(image, builder.Scalar(1)), builder.Scalar(2));
  int64_t layer = 0;
  for (size_t i = 0; i < config.num_encoder_blocks.size(); ++i) {
    x = Convolution(root.Child("layers", layer++), x, i == 0 ? first : halving);
    x = TinyBlocks(root, config, config.num_encoder_blocks[i], layer, x);
  }
  return Convolution(root.Child("layers", layer), x, {.out_channels = config.latent_channels});
}

Value DecodeAutoencoderTiny(GraphBuilder& builder, const AutoencoderTinyConfig& config,
                            absl::string_view component, Value latents) {
  if (!RequireImage(builder, "latents", latents, config.latent_channels)) return latents;
  const Scope root = Scope(builder, component).Child("decoder");
  // TAESD keeps latents within ±3.
  Value x = builder.Tanh(builder.Div(latents, builder.Scalar(3)));
  x = builder.Mul(x, builder.Scalar(3));
  x = Convolution(root.Child("layers.0"), x, {.out_channels = config.decoder_channels});
  x = Activate(builder, x, config.activation);
  int64_t layer = 2;  // diffusers numbers activations and upsamplings too
  for (size_t i = 0; i < config.num_decoder_blocks.size(); ++i) {
    x = TinyBlocks(root, config, config.num_decoder_blocks[i], layer, x);
    if (i + 1 == config.num_decoder_blocks.size()) break;
    const int64_t factor = config.upsampling_scaling_factor;
    x = builder.UpsampleNearest(x, factor * Dimension(builder, x, 2),
                                factor * Dimension(builder, x, 3));
    ++layer;
    x = Convolution(root.Child("layers", layer++), x,
                    {.out_channels = config.decoder_channels, .bias = Bias::kNone});
  }
  x = Convolution(root.Child("layers", layer), x, {.out_channels = config.out_channels});
  return builder.Sub(builder.Mul(x, builder.Scalar(2)), builder.Scalar(1));
}

}  // namespace latentd::networks
