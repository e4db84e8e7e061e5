#include "core/networks/autoencoder_temporal.h"

#include <algorithm>
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

int64_t BlocksOf(const AutoencoderTemporalConfig& config) {
  return static_cast<int64_t>(config.block_out_channels.size());
}

// Channels of the decoder's block of that number, from 0 on.
int64_t ChannelsOf(const AutoencoderTemporalConfig& config, int64_t block) {
  return config.block_out_channels[static_cast<size_t>(BlocksOf(config) - 1 - block)];
}

// Number of the block that the part begins with; of the one behind the last: of all.
int64_t FirstBlockOf(const AutoencoderTemporalConfig& config, int64_t part) {
  return part == 1 ? 0 : BlocksOf(config) - DecoderPartsOf(config) + part - 1;
}

// A block, behind the upsampler of the one before.
Value UpBlock(const Scope& decoder, const AutoencoderTemporalConfig& config, int64_t i, Value x) {
  GraphBuilder& b = decoder.builder();
  if (i > 0) {
    x = Upsample(decoder.Child("up_blocks", i - 1).Child("upsamplers.0"), x, 2 * Dimension(b, x, 2),
                 2 * Dimension(b, x, 3));
  }
  const Scope block = decoder.Child("up_blocks", i);
  for (int64_t layer = 0; layer < config.layers_per_block + 1; ++layer) {
    x = DecoderResnet(block.Child("resnets", layer), x, ChannelsOf(config, i));
  }
  return x;
}

Value DecoderEnd(const Scope& decoder, const AutoencoderTemporalConfig& config, Value x) {
  x = decoder.builder().Silu(
      GroupNorm(decoder.Child("conv_norm_out"), x, kClipGroups, kFrameEpsilon));
  x = Convolution(decoder.Child("conv_out"), x, {.out_channels = config.out_channels});
  return SmoothOverFrames(decoder, x, config.out_channels);
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
  Value x = latents;
  for (int64_t part = 1; part <= DecoderPartsOf(config); ++part) {
    x = DecodeAutoencoderTemporalPart(builder, config, component, part, x);
  }
  return x;
}

int64_t DecoderPartsOf(const AutoencoderTemporalConfig& config) {
  return std::min<int64_t>(BlocksOf(config), 3);
}

Shape DecoderPartInput(const AutoencoderTemporalConfig& config, int64_t part, int64_t frames,
                       int64_t height, int64_t width) {
  const int64_t last_block = FirstBlockOf(config, part) - 1;
  const int64_t scale = int64_t{1} << last_block;
  return {frames, ChannelsOf(config, last_block), height * scale, width * scale};
}

Value DecodeAutoencoderTemporalPart(GraphBuilder& builder, const AutoencoderTemporalConfig& config,
                                    absl::string_view component, int64_t part, Value input) {
  const bool is_first = part == 1;
  const int64_t channels =
      is_first ? config.latent_channels : ChannelsOf(config, FirstBlockOf(config, part) - 1);
  if (!RequireImage(builder, is_first ? "latents" : "features", input, channels)) return input;
  const Scope decoder = Scope(builder, component).Child("decoder");
  Value x = input;
  if (is_first) {
    x = Convolution(decoder.Child("conv_in"), x,
                    {.out_channels = config.block_out_channels.back()});
    x = DecoderMiddle(decoder.Child("mid_block"), config.layers_per_block, x);
  }
  for (int64_t i = FirstBlockOf(config, part); i < FirstBlockOf(config, part + 1); ++i) {
    x = UpBlock(decoder, config, i, x);
  }
  return part == DecoderPartsOf(config) ? DecoderEnd(decoder, config, x) : x;
}

}  // namespace latentd::networks
