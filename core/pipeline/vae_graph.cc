#include "core/pipeline/vae_graph.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;
using graph::GraphBuilder;
using graph::Rate;
using graph::Value;
using models::AutoencoderKlConfig;
using models::AutoencoderTinyConfig;

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

Value DecodeWith(GraphBuilder& b, const AutoencoderKlConfig& config, Value latents) {
  return models::DecodeAutoencoderKl(b, config, "vae", latents);
}
Value DecodeWith(GraphBuilder& b, const AutoencoderTinyConfig& config, Value latents) {
  return models::DecodeAutoencoderTiny(b, config, "vae", latents);
}
Value EncodeWith(GraphBuilder& b, const AutoencoderKlConfig& config, Value image) {
  return models::EncodeAutoencoderKl(b, config, "vae", image);
}
Value EncodeWith(GraphBuilder& b, const AutoencoderTinyConfig& config, Value image) {
  return models::EncodeAutoencoderTiny(b, config, "vae", image);
}

// diffusers' DiagonalGaussianDistribution clamps so.
constexpr float kMinLogVariance = -30;
constexpr float kMaxLogVariance = 20;

Buffer Sample(const Buffer& moments, noise::NoiseGenerator& generator) {
  const auto& dims = moments.shape();
  Buffer latents = generator.Normal({1, dims[1] / 2, dims[2], dims[3]});
  const absl::Span<float> x = latents.as<float>();
  const float* mean = moments.as<float>().data();
  const float* log_variance = mean + x.size();
  for (size_t i = 0; i < x.size(); ++i) {
    const float clamped = std::clamp(log_variance[i], kMinLogVariance, kMaxLogVariance);
    x[i] = mean[i] + std::exp(0.5f * clamped) * x[i];
  }
  return latents;
}

Buffer Copy(const Buffer& buffer) {
  Buffer copy = Buffer::Allocate(buffer.dtype(), buffer.shape());
  std::memcpy(copy.data(), buffer.data(), buffer.bytes());
  return copy;
}

void Scale(Buffer& latents, const Scaling& scaling) {
  const absl::Span<float> x = latents.as<float>();
  const size_t plane = x.size() / scaling.factor.size();
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = (x[i] - scaling.offset[i / plane]) * scaling.factor[i / plane];
  }
}

}  // namespace

int DownscaleOf(const VaeConfig& config) {
  if (const auto* kl = std::get_if<AutoencoderKlConfig>(&config)) {
    return static_cast<int>(kl->downscale());
  }
  // TAESD halves at every resolution but the first.
  return 1 << (std::get<AutoencoderTinyConfig>(config).num_encoder_blocks.size() - 1);
}

int64_t LatentChannelsOf(const VaeConfig& config) {
  return std::visit([](const auto& vae) { return vae.latent_channels; }, config);
}

absl::StatusOr<graph::Graph> MakeDecodeGraph(const VaeConfig& config, int64_t height, int64_t width,
                                             GraphBuilder::StoredDType stored_dtype) {
  GraphBuilder b(std::move(stored_dtype));
  const Value latents =
      b.Input("latents", DType::kF32, {1, LatentChannelsOf(config), height, width}, Rate::kStep);
  const Value unscaled = Unscale(b, latents, ScalingOf(config));
  b.Output("image",
           std::visit([&](const auto& vae) { return DecodeWith(b, vae, unscaled); }, config));
  return std::move(b).Build();
}

absl::StatusOr<graph::Graph> MakeEncodeGraph(const VaeConfig& config, int64_t height, int64_t width,
                                             GraphBuilder::StoredDType stored_dtype) {
  GraphBuilder b(std::move(stored_dtype));
  const int64_t scale = DownscaleOf(config);
  const Value image =
      b.Input("image", DType::kF32, {1, 3, height * scale, width * scale}, Rate::kStep);
  b.Output("encoded",
           std::visit([&](const auto& vae) { return EncodeWith(b, vae, image); }, config));
  return std::move(b).Build();
}

device::Buffer ToLatents(const VaeConfig& config, const device::Buffer& encoded,
                         noise::NoiseGenerator& generator) {
  const bool is_distribution = std::holds_alternative<AutoencoderKlConfig>(config);
  Buffer latents = is_distribution ? Sample(encoded, generator) : Copy(encoded);
  Scale(latents, ScalingOf(config));
  return latents;
}

}  // namespace latentd::pipeline
