#include "core/weights/containers/recognize/video_vae_part.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/weights/containers/recognize/vae_part.h"

namespace latentd::weights {
namespace {

using device::Shape;
using nlohmann::json;

constexpr double kVideoScaling = 0.18215;
constexpr int64_t kVideoVaeSide = 768;

std::string Behind(absl::string_view path, absl::string_view name) {
  return absl::StrCat(path, ".", name);
}

// Takes the decoder's tensors module by module, for an encoder of that architecture.
class VideoDecoderReading {
 public:
  VideoDecoderReading(PartTensors tensors, const VaeArchitecture& vae)
      : reader_("the VAE's decoder of frames", std::move(tensors)), vae_(vae) {}

  absl::StatusOr<SourceMap> Read(const std::string& path) && {
    for (const char* rest : {"encoder", "quant_conv", "loss"}) reader_.Ignore(rest);
    int64_t in = vae_.channels.back();
    TakeWeightAndBias("decoder.conv_in", "decoder.conv_in", {in, vae_.latent_channels, 3, 3});
    TakeMiddle(in);
    for (int64_t i = 0; i < blocks(); ++i) in = TakeBlock(i, in);
    TakeNorm("decoder.norm_out", "decoder.conv_norm_out", in);
    const int64_t colours = vae_.image_channels;
    TakeWeightAndBias("decoder.conv_out", "decoder.conv_out", {colours, in, 3, 3});
    TakeWeightAndBias("decoder.conv_out.time_mix_conv", "decoder.time_conv_out",
                      {colours, colours, 3, 1, 1});
    return std::move(reader_).Finish(path);
  }

 private:
  int64_t blocks() const { return std::ssize(vae_.channels); }

  void TakeWeightAndBias(const std::string& from, const std::string& to, const Shape& weight) {
    reader_.Take(Behind(from, "weight"), Behind(to, "weight"), weight);
    reader_.Take(Behind(from, "bias"), Behind(to, "bias"), {weight[0]});
  }

  void TakeNorm(const std::string& from, const std::string& to, int64_t features) {
    reader_.Take(Behind(from, "weight"), Behind(to, "weight"), {features});
    reader_.Take(Behind(from, "bias"), Behind(to, "bias"), {features});
  }

  // The block over pixels, the one over frames, and how they are mixed.
  void TakeResnet(const std::string& from, const std::string& to, int64_t in, int64_t out) {
    const std::string pixels = Behind(to, "spatial_res_block");
    TakeNorm(Behind(from, "norm1"), Behind(pixels, "norm1"), in);
    TakeWeightAndBias(Behind(from, "conv1"), Behind(pixels, "conv1"), {out, in, 3, 3});
    TakeNorm(Behind(from, "norm2"), Behind(pixels, "norm2"), out);
    TakeWeightAndBias(Behind(from, "conv2"), Behind(pixels, "conv2"), {out, out, 3, 3});
    if (in != out) {
      TakeWeightAndBias(Behind(from, "nin_shortcut"), Behind(pixels, "conv_shortcut"),
                        {out, in, 1, 1});
    }
    const std::string stack = Behind(from, "time_stack"), frames = Behind(to, "temporal_res_block");
    TakeNorm(Behind(stack, "in_layers.0"), Behind(frames, "norm1"), out);
    TakeWeightAndBias(Behind(stack, "in_layers.2"), Behind(frames, "conv1"), {out, out, 3, 1, 1});
    TakeNorm(Behind(stack, "out_layers.0"), Behind(frames, "norm2"), out);
    TakeWeightAndBias(Behind(stack, "out_layers.3"), Behind(frames, "conv2"), {out, out, 3, 1, 1});
    reader_.Take(Behind(from, "mix_factor"), Behind(to, "time_mixer.mix_factor"), {1});
  }

  // A layer of the attention, which is stored as a 1 x 1 convolution.
  void TakeProjection(const std::string& from, const std::string& to, int64_t channels) {
    reader_.TakeMatrix(Behind(from, "weight"), Behind(to, "weight"), {channels, channels});
    reader_.Take(Behind(from, "bias"), Behind(to, "bias"), {channels});
  }

  void TakeMiddle(int64_t channels) {
    for (int i = 0; i < 2; ++i) {
      TakeResnet(absl::StrCat("decoder.mid.block_", i + 1),
                 absl::StrCat("decoder.mid_block.resnets.", i), channels, channels);
    }
    const std::string from = "decoder.mid.attn_1", to = "decoder.mid_block.attentions.0";
    TakeNorm(Behind(from, "norm"), Behind(to, "group_norm"), channels);
    TakeProjection(Behind(from, "q"), Behind(to, "to_q"), channels);
    TakeProjection(Behind(from, "k"), Behind(to, "to_k"), channels);
    TakeProjection(Behind(from, "v"), Behind(to, "to_v"), channels);
    TakeProjection(Behind(from, "proj_out"), Behind(to, "to_out.0"), channels);
  }

  // The file has the block of the largest image first. The block's channels.
  int64_t TakeBlock(int64_t index, int64_t in) {
    const std::string from = absl::StrCat("decoder.up.", blocks() - 1 - index);
    const std::string to = absl::StrCat("decoder.up_blocks.", index);
    const int64_t out = vae_.channels[blocks() - 1 - index];
    for (int64_t j = 0; j < vae_.layers + 1; ++j) {
      TakeResnet(absl::StrCat(from, ".block.", j), absl::StrCat(to, ".resnets.", j),
                 std::exchange(in, out), out);
    }
    if (index + 1 == blocks()) return out;
    TakeWeightAndBias(Behind(from, "upsample.conv"), to + ".upsamplers.0.conv", {out, out, 3, 3});
    return out;
  }

  PartReader reader_;
  const VaeArchitecture& vae_;
};

std::string VideoVaeConfig(const VaeArchitecture& vae) {
  const json config = {
      {"_class_name", "AutoencoderKLTemporalDecoder"},
      {"block_out_channels", vae.channels},
      {"down_block_types", std::vector<std::string>(vae.channels.size(), "DownEncoderBlock2D")},
      {"force_upcast", true},
      {"in_channels", vae.image_channels},
      {"latent_channels", vae.latent_channels},
      {"layers_per_block", vae.layers},
      {"out_channels", vae.image_channels},
      {"sample_size", kVideoVaeSide},
      {"scaling_factor", kVideoScaling}};
  return config.dump(2);
}

}  // namespace

absl::StatusOr<std::optional<VideoVaePart>> ReadVideoVae(const std::string& path,
                                                         const TensorMap& tensors) {
  PartTensors encoder = TensorsUnder(tensors, kVideoEncoderPrefix);
  PartTensors decoder = TensorsUnder(tensors, kVideoDecoderPrefix);
  if (!encoder.HasUnder("encoder") || !decoder.HasUnder("decoder")) return std::nullopt;
  ASSIGN_OR_RETURN(VaePart part, ReadVaeEncoder(path, std::move(encoder)));
  ASSIGN_OR_RETURN(SourceMap frames,
                   VideoDecoderReading(std::move(decoder), part.architecture).Read(path));
  for (auto& [name, source] : frames) part.sources.insert_or_assign(name, std::move(source));
  return VideoVaePart{VideoVaeConfig(part.architecture), std::move(part.sources)};
}

}  // namespace latentd::weights
