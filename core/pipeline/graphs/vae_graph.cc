#include "core/pipeline/graphs/vae_graph.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/pipeline/graphs/tiled_graph.h"

namespace latentd::pipeline {
namespace {

using device::DType;
using graph::GraphBuilder;
using graph::Rate;
using graph::Value;
using networks::AutoencoderKlConfig;
using networks::AutoencoderTinyConfig;

// Latents of the UNet are (latents of the autoencoder - offset) * factor, for each channel.
struct Scaling {
  std::vector<float> factor;
  std::vector<float> offset;
};

Scaling ScalingOf(const VaeConfig& config) {
  const auto channels = static_cast<size_t>(LatentChannelsOf(config));
  Scaling scaling;
  if (const auto* tiny = std::get_if<AutoencoderTinyConfig>(&config)) {
    scaling.factor.assign(channels, static_cast<float>(tiny->scaling_factor));
    scaling.offset.assign(channels, static_cast<float>(tiny->shift_factor));
    return scaling;
  }
  const auto& kl = std::get<AutoencoderKlConfig>(config);
  const bool by_channel = kl.latents_mean && kl.latents_std;
  for (size_t c = 0; c < channels; ++c) {
    const double deviation = by_channel ? (*kl.latents_std)[c] : 1;
    const double mean = by_channel ? (*kl.latents_mean)[c] : kl.shift_factor.value_or(0);
    scaling.factor.push_back(static_cast<float>(kl.scaling_factor / deviation));
    scaling.offset.push_back(static_cast<float>(mean));
  }
  return scaling;
}

bool IsZero(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return x == 0; });
}

// latents / factor + offset.
Value Unscale(GraphBuilder& b, Value latents, const Scaling& scaling) {
  const auto channels = static_cast<int64_t>(scaling.factor.size());
  const Value unscaled = b.Div(latents, b.Constant(scaling.factor, {1, channels, 1, 1}));
  if (IsZero(scaling.offset)) return unscaled;
  return b.Add(unscaled, b.Constant(scaling.offset, {1, channels, 1, 1}));
}

Value DecodeWith(GraphBuilder& b, const AutoencoderKlConfig& config, absl::string_view component,
                 Value latents) {
  return networks::DecodeAutoencoderKl(b, config, component, latents);
}
Value DecodeWith(GraphBuilder& b, const AutoencoderTinyConfig& config, absl::string_view component,
                 Value latents) {
  return networks::DecodeAutoencoderTiny(b, config, component, latents);
}
Value EncodeWith(GraphBuilder& b, const AutoencoderKlConfig& config, Value image) {
  return networks::EncodeAutoencoderKl(b, config, "vae", image);
}
Value EncodeWith(GraphBuilder& b, const AutoencoderTinyConfig& config, Value image) {
  return networks::EncodeAutoencoderTiny(b, config, "vae", image);
}

// (latents - offset) * factor.
Value Scale(GraphBuilder& b, Value latents, const Scaling& scaling) {
  const auto channels = static_cast<int64_t>(scaling.factor.size());
  if (!IsZero(scaling.offset)) {
    latents = b.Sub(latents, b.Constant(scaling.offset, {1, channels, 1, 1}));
  }
  return b.Mul(latents, b.Constant(scaling.factor, {1, channels, 1, 1}));
}

// diffusers' DiagonalGaussianDistribution clamps so.
constexpr float kMinLogVariance = -30;
constexpr float kMaxLogVariance = 20;

// mean + exp(log variance / 2) * noise.
Value SampleOf(GraphBuilder& b, Value moments, Value noise) {
  const int64_t channels = b.shape(noise)[1];
  const Value mean = b.Slice(moments, 1, 0, channels);
  const Value log_variance =
      b.Clamp(b.Slice(moments, 1, channels, 2 * channels), kMinLogVariance, kMaxLogVariance);
  return b.Add(mean, b.Mul(b.Exp(b.Mul(b.Scalar(0.5f), log_variance)), noise));
}

// An input of a picture's step.
Value Step(GraphBuilder& b, const char* name, graph::Shape shape) {
  return b.Input(name, DType::kF32, std::move(shape), Rate::kStep);
}

}  // namespace

absl::StatusOr<graph::Graph> MakeDecodeGraph(const VaeConfig& config, const TileGrid& tiles,
                                             absl::string_view component) {
  GraphBuilder b;
  const auto [height, width] = tiles.image();
  const Value latents = Step(b, "latents", {1, LatentChannelsOf(config), height, width});
  const Value unscaled = Unscale(b, latents, ScalingOf(config));
  const auto decode = [&](Value tile) {
    return std::visit([&](const auto& vae) { return DecodeWith(b, vae, component, tile); }, config);
  };
  const Value image = OverTiles(b, tiles, unscaled, /*scale_in=*/1, DownscaleOf(config), decode);
  b.Output("pixels", b.ToPixels(b.Permute(image, {0, 2, 3, 1})));
  b.Output("finite", b.IsFinite(image));
  return std::move(b).Build();
}

absl::StatusOr<graph::Graph> MakeEncodeGraph(const VaeConfig& config, const TileGrid& tiles,
                                             bool masked) {
  GraphBuilder b;
  const int64_t scale = DownscaleOf(config);
  const int64_t height = tiles.image().height * scale, width = tiles.image().width * scale;
  const Value pixels = b.Input("image", DType::kU8, {1, height, width, 3}, Rate::kStep);
  const Value unit = b.Div(b.Cast(pixels, DType::kF32), b.Scalar(255));
  Value signed_unit = b.Sub(b.Mul(unit, b.Scalar(2)), b.Scalar(1));
  if (masked) {
    const Value keep = b.Input("keep", DType::kU8, {1, height, width, 1}, Rate::kStep);
    signed_unit = b.Mul(signed_unit, b.Cast(keep, DType::kF32));
  }
  const Value image = b.Permute(signed_unit, {0, 3, 1, 2});
  const auto encode = [&](Value tile) {
    return std::visit([&](const auto& vae) { return EncodeWith(b, vae, tile); }, config);
  };
  const Value moments = OverTiles(b, tiles, image, scale, /*scale_out=*/1, encode);
  b.Output("moments", moments);
  b.Output("finite", b.IsFinite(moments));
  return std::move(b).Build();
}

absl::StatusOr<graph::Graph> MakeSampleGraph(const VaeConfig& config, int64_t height,
                                             int64_t width) {
  GraphBuilder b;
  const int64_t channels = LatentChannelsOf(config);
  const graph::Shape shape{1, channels, height, width};
  Value latents;
  if (IsDistribution(config)) {
    const Value moments = Step(b, "moments", {1, 2 * channels, height, width});
    latents = SampleOf(b, moments, Step(b, "sample_noise", shape));
  } else {
    latents = Step(b, "moments", shape);
  }
  const Value noise = Step(b, "noise", shape);
  const auto scale = [&](const char* name) { return b.Reshape(Step(b, name, {1}), {1, 1, 1, 1}); };
  const Value image_scale = scale("image_scale"), noise_scale = scale("noise_scale");
  latents = Scale(b, latents, ScalingOf(config));
  const Value mask = Step(b, "mask", {1, 1, height, width});
  const Value kept = b.Add(b.Mul(image_scale, latents), b.Mul(noise_scale, noise));
  const Value drawn = b.Mul(mask, Step(b, "drawn", shape));
  b.Output("latents", b.Add(b.Mul(b.Sub(b.Scalar(1), mask), kept), drawn));
  return std::move(b).Build();
}

}  // namespace latentd::pipeline
