#include "core/networks/autoencoder_temporal.h"

#include <utility>

#include "core/base/errors/status_macros.h"
#include "core/networks/autoencoder_kl.h"
#include "core/networks/config/config_reader.h"
#include "core/networks/layers/spatio_temporal_resnet.h"

namespace latentd::networks {
namespace {

// Fixed in diffusers.
constexpr double kFrameEpsilon = 1e-6;
constexpr double kOverFramesEpsilon = 1e-5;

constexpr Range kVideoChannels = {1, 1 << 16};

void ReadVideoBlocks(ConfigReader& reader, AutoencoderTemporalConfig& config) {
  constexpr absl::string_view kType = "DownEncoderBlock2D";
  config.block_out_channels = reader.Integers("block_out_channels", {64}, kVideoChannels);
  config.layers_per_block = reader.Integer("layers_per_block", 1, {1, 16});
  const size_t blocks = config.block_out_channels.size();
  const size_t types = reader.Choices("down_block_types", {std::string(kType)}, {kType}).size();
  if (types != blocks) {
    reader.Mistake("down_block_types", absl::StrCat("has ", types, " elements; supported: ", blocks,
                                                    ", as many as block_out_channels"));
  }
  for (const int64_t channels : config.block_out_channels) {
    if (channels % kClipGroups == 0) continue;
    reader.Mistake("block_out_channels",
                   absl::StrCat("has ", channels, "; supported: multiples of ", kClipGroups,
                                ", the groups of its norms"));
  }
}

AutoencoderKlConfig EncoderOf(const AutoencoderTemporalConfig& config) {
  AutoencoderKlConfig encoder;
  encoder.in_channels = config.in_channels;
  encoder.latent_channels = config.latent_channels;
  encoder.block_out_channels = config.block_out_channels;
  encoder.layers_per_block = config.layers_per_block;
  encoder.norm_num_groups = kClipGroups;
  return encoder;
}

Value DecoderResnet(const Scope& scope, Value x, int64_t channels) {
  return SpatioTemporalResnet(scope, x, /*time=*/{},
                              {.out_channels = channels,
                               .frames = Dimension(scope.builder(), x, 0),
                               .frame_epsilon = kFrameEpsilon,
                               .clip_epsilon = kOverFramesEpsilon,
                               .mixing = Mixing::kSwitched});
}

// Runs two of its layers, as diffusers does, and with one of them no attention.
Value DecoderMiddle(const Scope& scope, int64_t layers, Value x) {
  const int64_t channels = Dimension(scope.builder(), x, 1);
  x = DecoderResnet(scope.Child("resnets.0"), x, channels);
  if (layers < 2) return x;
  x = PixelAttention(scope.Child("attentions.0"), x, kClipGroups, kFrameEpsilon);
  return DecoderResnet(scope.Child("resnets.1"), x, channels);
}

Value SmoothOverFrames(const Scope& decoder, Value images, int64_t channels) {
  GraphBuilder& b = decoder.builder();
  const Value columns = ImagesToColumns(b, images, Dimension(b, images, 0));
  const Value smooth = ConvolutionOverFrames(decoder.Child("time_conv_out"), columns, channels);
  return ColumnsToImages(b, smooth, Dimension(b, images, 2), Dimension(b, images, 3));
}

}  // namespace

absl::StatusOr<AutoencoderTemporalConfig> ParseAutoencoderTemporalConfig(absl::string_view json,
                                                                         absl::string_view source) {
  ASSIGN_OR_RETURN(ConfigReader reader,
                   ConfigReader::Parse(json, source, "AutoencoderKLTemporalDecoder"));
  AutoencoderTemporalConfig config;
  config.in_channels = reader.Integer("in_channels", 3, kVideoChannels);
  config.out_channels = reader.Integer("out_channels", 3, kVideoChannels);
  config.latent_channels = reader.Integer("latent_channels", 4, kVideoChannels);
  ReadVideoBlocks(reader, config);
  config.scaling_factor = reader.Positive("scaling_factor", 0.18215);
  config.force_upcast = reader.Boolean("force_upcast", true);
  RETURN_IF_ERROR(reader.Finish(kUnreadByAutoencoderTemporal));
  config.unknown_fields = reader.unknown_fields();
  return config;
}

Value EncodeAutoencoderTemporal(GraphBuilder& builder, const AutoencoderTemporalConfig& config,
                                absl::string_view component, Value image) {
  return EncodeAutoencoderKl(builder, EncoderOf(config), component, image);
}

Value DecodeAutoencoderTemporal(GraphBuilder& builder, const AutoencoderTemporalConfig& config,
                                absl::string_view component, Value latents) {
  if (!RequireImage(builder, "latents", latents, config.latent_channels)) return latents;
  const Scope decoder = Scope(builder, component).Child("decoder");
  const std::vector<int64_t>& channels = config.block_out_channels;
  Value x = Convolution(decoder.Child("conv_in"), latents, {.out_channels = channels.back()});
  x = DecoderMiddle(decoder.Child("mid_block"), config.layers_per_block, x);
  for (size_t i = 0; i < channels.size(); ++i) {
    const Scope block = decoder.Child("up_blocks", static_cast<int64_t>(i));
    for (int64_t layer = 0; layer < config.layers_per_block + 1; ++layer) {
      x = DecoderResnet(block.Child("resnets", layer), x, channels[channels.size() - 1 - i]);
    }
    if (i + 1 == channels.size()) break;
    x = Upsample(block.Child("upsamplers.0"), x, 2 * Dimension(builder, x, 2),
                 2 * Dimension(builder, x, 3));
  }
  x = builder.Silu(GroupNorm(decoder.Child("conv_norm_out"), x, kClipGroups, kFrameEpsilon));
  x = Convolution(decoder.Child("conv_out"), x, {.out_channels = config.out_channels});
  return SmoothOverFrames(decoder, x, config.out_channels);
}

}  // namespace latentd::networks
