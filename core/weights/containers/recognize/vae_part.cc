#include "core/weights/containers/recognize/vae_part.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"

namespace latentd::weights {
namespace {

using device::Shape;
using nlohmann::json;

constexpr absl::string_view kVaePrefixes[] = {"first_stage_model.", "vae.", ""};
constexpr size_t kMostResolutions = 16;

std::string Dotted(absl::string_view path, absl::string_view name) {
  return absl::StrCat(path, ".", name);
}

// Names of the modules that differ between the three kinds of files.
struct VaeSpelling {
  absl::string_view down, up;                // lists of blocks
  absl::string_view down_layers, up_layers;  // a list of residual blocks in each of them
  absl::string_view downsampler, upsampler;  // the convolution of a block
  bool up_is_reversed;                       // the largest image comes first on the way up
  absl::string_view first_resnet, attention, last_resnet;  // in the middle
  absl::string_view group_norm, to_q, to_k, to_v, to_out;
  absl::string_view conv_norm_out, conv_shortcut;
};

constexpr VaeSpelling kLdmVae = {
    "down",          "up",          "block",       "block",      "downsample.conv",
    "upsample.conv", true,          "mid.block_1", "mid.attn_1", "mid.block_2",
    "norm",          "q",           "k",           "v",          "proj_out",
    "norm_out",      "nin_shortcut"};
constexpr VaeSpelling kTodaysVae = {"down_blocks",
                                    "up_blocks",
                                    "resnets",
                                    "resnets",
                                    "downsamplers.0.conv",
                                    "upsamplers.0.conv",
                                    false,
                                    "mid_block.resnets.0",
                                    "mid_block.attentions.0",
                                    "mid_block.resnets.1",
                                    "group_norm",
                                    "to_q",
                                    "to_k",
                                    "to_v",
                                    "to_out.0",
                                    "conv_norm_out",
                                    "conv_shortcut"};

VaeSpelling OldVae() {
  VaeSpelling old = kTodaysVae;
  old.to_q = "query";
  old.to_k = "key";
  old.to_v = "value";
  old.to_out = "proj_attn";
  return old;
}

VaeSpelling SpellingOf(const PartTensors& tensors) {
  for (const char* half : {"encoder", "decoder"}) {
    if (tensors.HasUnder(Dotted(half, "mid_block.attentions.0.query"))) return OldVae();
    if (tensors.HasUnder(Dotted(half, "mid_block"))) return kTodaysVae;
  }
  return kLdmVae;
}

bool HasHalf(const PartTensors& tensors, absl::string_view half) {
  for (const char* path : {"mid", "mid_block", "down", "down_blocks", "up", "up_blocks"}) {
    if (tensors.HasUnder(Dotted(half, path))) return true;
  }
  return false;
}

// Takes an AutoencoderKL's tensors module by module.
class VaeReading {
 public:
  explicit VaeReading(PartTensors tensors)
      : spelling_(SpellingOf(tensors)), reader_("the VAE", std::move(tensors)) {}

  absl::StatusOr<VaePart> Read(const std::string& path) && {
    ReadSizes("decoder.conv_in.weight", /*dimension=*/1, /*moments=*/1);
    if (!reader_.has_mistakes()) {
      TakeEncoder();
      TakeDecoder();
      TakeQuantization();
    }
    return std::move(*this).Finish(path);
  }

  absl::StatusOr<VaePart> ReadEncoder(const std::string& path) && {
    for (const char* rest : {"decoder", "post_quant_conv"}) reader_.Ignore(rest);
    ReadSizes("encoder.conv_out.weight", /*dimension=*/0, /*moments=*/2);
    vae_.has_post_quant_conv = false;
    if (!reader_.has_mistakes()) {
      TakeEncoder();
      TakeQuantization();
    }
    return std::move(*this).Finish(path);
  }

 private:
  absl::StatusOr<VaePart> Finish(const std::string& path) && {
    ASSIGN_OR_RETURN(SourceMap sources, std::move(reader_).Finish(path));
    return VaePart{std::move(vae_), std::move(sources)};
  }

  std::string EncoderBlock(int64_t index) const {
    return absl::StrCat("encoder.", spelling_.down, ".", index);
  }
  std::string DecoderBlock(int64_t index) const {
    const int64_t stored = spelling_.up_is_reversed ? blocks() - 1 - index : index;
    return absl::StrCat("decoder.", spelling_.up, ".", stored);
  }
  int64_t blocks() const { return std::ssize(vae_.channels); }

  // Latent channels are a size of that tensor, divided by `moments`.
  void ReadSizes(const std::string& of_latents, int dimension, int64_t moments) {
    const int64_t blocks = reader_.CountUnder(Dotted("encoder", spelling_.down));
    if (blocks < 1 || blocks > static_cast<int64_t>(kMostResolutions)) {
      reader_.Refuse(absl::StrCat("its encoder has ", blocks, " blocks"));
      return;
    }
    for (int64_t i = 0; i < blocks; ++i) {
      const std::string first = Dotted(Dotted(EncoderBlock(i), spelling_.down_layers), "0");
      vae_.channels.push_back(reader_.Size(Dotted(first, "conv1.weight"), 0));
    }
    vae_.layers = reader_.CountUnder(Dotted(EncoderBlock(0), spelling_.down_layers));
    vae_.image_channels = reader_.Size("encoder.conv_in.weight", 1);
    vae_.latent_channels = reader_.Size(of_latents, dimension) / moments;
    vae_.has_quant_conv = reader_.HasUnder("quant_conv");
    vae_.has_post_quant_conv = reader_.HasUnder("post_quant_conv");
    vae_.has_attention = reader_.HasUnder(Dotted("encoder", spelling_.attention));
  }

  void TakeNorm(const std::string& from, const std::string& to, int64_t features) {
    for (const char* part : {"weight", "bias"}) {
      reader_.Take(Dotted(from, part), Dotted(to, part), {features});
    }
  }

  void TakeConvolution(const std::string& from, const std::string& to, const Shape& weight) {
    reader_.Take(Dotted(from, "weight"), Dotted(to, "weight"), weight);
    reader_.Take(Dotted(from, "bias"), Dotted(to, "bias"), {weight[0]});
  }

  void TakeResnet(const std::string& from, const std::string& to, int64_t in, int64_t out) {
    TakeNorm(Dotted(from, "norm1"), Dotted(to, "norm1"), in);
    TakeConvolution(Dotted(from, "conv1"), Dotted(to, "conv1"), {out, in, 3, 3});
    TakeNorm(Dotted(from, "norm2"), Dotted(to, "norm2"), out);
    TakeConvolution(Dotted(from, "conv2"), Dotted(to, "conv2"), {out, out, 3, 3});
    if (in == out) return;
    TakeConvolution(Dotted(from, spelling_.conv_shortcut), Dotted(to, "conv_shortcut"),
                    {out, in, 1, 1});
  }

  // A layer of the middle's attention, which old files store as a 1 x 1 convolution.
  void TakeAttentionLayer(const std::string& from, const std::string& to, int64_t channels) {
    reader_.TakeMatrix(Dotted(from, "weight"), Dotted(to, "weight"), {channels, channels});
    reader_.Take(Dotted(from, "bias"), Dotted(to, "bias"), {channels});
  }

  void TakeMiddle(const std::string& half) {
    const int64_t channels = vae_.channels.back();
    const std::string to = half + ".mid_block";
    TakeResnet(Dotted(half, spelling_.first_resnet), to + ".resnets.0", channels, channels);
    TakeResnet(Dotted(half, spelling_.last_resnet), to + ".resnets.1", channels, channels);
    if (!vae_.has_attention) return;
    const std::string from = Dotted(half, spelling_.attention), attention = to + ".attentions.0";
    TakeNorm(Dotted(from, spelling_.group_norm), attention + ".group_norm", channels);
    TakeAttentionLayer(Dotted(from, spelling_.to_q), attention + ".to_q", channels);
    TakeAttentionLayer(Dotted(from, spelling_.to_k), attention + ".to_k", channels);
    TakeAttentionLayer(Dotted(from, spelling_.to_v), attention + ".to_v", channels);
    TakeAttentionLayer(Dotted(from, spelling_.to_out), attention + ".to_out.0", channels);
  }

  void TakeEncoder() {
    int64_t in = vae_.channels.front();
    TakeConvolution("encoder.conv_in", "encoder.conv_in", {in, vae_.image_channels, 3, 3});
    for (int64_t i = 0; i < blocks(); ++i) {
      const std::string from = EncoderBlock(i), to = absl::StrCat("encoder.down_blocks.", i);
      const int64_t out = vae_.channels[i];
      for (int64_t j = 0; j < vae_.layers; ++j) {
        TakeResnet(absl::StrCat(from, ".", spelling_.down_layers, ".", j),
                   absl::StrCat(to, ".resnets.", j), std::exchange(in, out), out);
      }
      if (i + 1 == blocks()) break;
      TakeConvolution(Dotted(from, spelling_.downsampler), to + ".downsamplers.0.conv",
                      {out, out, 3, 3});
    }
    TakeMiddle("encoder");
    TakeNorm(Dotted("encoder", spelling_.conv_norm_out), "encoder.conv_norm_out", in);
    TakeConvolution("encoder.conv_out", "encoder.conv_out", {2 * vae_.latent_channels, in, 3, 3});
  }

  void TakeDecoder() {
    int64_t in = vae_.channels.back();
    TakeConvolution("decoder.conv_in", "decoder.conv_in", {in, vae_.latent_channels, 3, 3});
    TakeMiddle("decoder");
    for (int64_t i = 0; i < blocks(); ++i) {
      const std::string from = DecoderBlock(i), to = absl::StrCat("decoder.up_blocks.", i);
      const int64_t out = vae_.channels[blocks() - 1 - i];
      for (int64_t j = 0; j < vae_.layers + 1; ++j) {
        TakeResnet(absl::StrCat(from, ".", spelling_.up_layers, ".", j),
                   absl::StrCat(to, ".resnets.", j), std::exchange(in, out), out);
      }
      if (i + 1 == blocks()) break;
      TakeConvolution(Dotted(from, spelling_.upsampler), to + ".upsamplers.0.conv",
                      {out, out, 3, 3});
    }
    TakeNorm(Dotted("decoder", spelling_.conv_norm_out), "decoder.conv_norm_out", in);
    TakeConvolution("decoder.conv_out", "decoder.conv_out", {vae_.image_channels, in, 3, 3});
  }

  void TakeQuantization() {
    const int64_t latent = vae_.latent_channels;
    if (vae_.has_quant_conv) {
      TakeConvolution("quant_conv", "quant_conv", {2 * latent, 2 * latent, 1, 1});
    }
    if (vae_.has_post_quant_conv) {
      TakeConvolution("post_quant_conv", "post_quant_conv", {latent, latent, 1, 1});
    }
  }

  VaeSpelling spelling_;
  PartReader reader_;
  VaeArchitecture vae_;
};

json Repeated(const char* type, size_t count) {
  return json(std::vector<std::string>(count, type));
}

json SettingsOf(const VaeDefaults& defaults) {
  json settings = {{"scaling_factor", defaults.scaling_factor},
                   {"sample_size", defaults.sample_size},
                   {"force_upcast", true}};
  if (!defaults.latents_mean.empty()) settings["latents_mean"] = defaults.latents_mean;
  if (!defaults.latents_std.empty()) settings["latents_std"] = defaults.latents_std;
  return settings;
}

}  // namespace

std::optional<PartTensors> FindVae(const TensorMap& tensors) {
  for (const absl::string_view prefix : kVaePrefixes) {
    PartTensors part = TensorsUnder(tensors, prefix);
    if (HasHalf(part, "encoder") || HasHalf(part, "decoder")) return part;
  }
  return std::nullopt;
}

bool IsHalfVae(const PartTensors& tensors) {
  return HasHalf(tensors, "encoder") != HasHalf(tensors, "decoder");
}

absl::StatusOr<VaePart> ReadVae(const std::string& path, PartTensors tensors) {
  return VaeReading(std::move(tensors)).Read(path);
}

absl::StatusOr<VaePart> ReadVaeEncoder(const std::string& path, PartTensors tensors) {
  return VaeReading(std::move(tensors)).ReadEncoder(path);
}

std::string VaeSettings(const VaeDefaults& defaults) { return SettingsOf(defaults).dump(2); }

std::string VaeConfig(const VaeArchitecture& vae, const std::optional<VaeDefaults>& defaults) {
  json config = {{"_class_name", "AutoencoderKL"},
                 {"act_fn", "silu"},
                 {"block_out_channels", vae.channels},
                 {"down_block_types", Repeated("DownEncoderBlock2D", vae.channels.size())},
                 {"up_block_types", Repeated("UpDecoderBlock2D", vae.channels.size())},
                 {"in_channels", vae.image_channels},
                 {"out_channels", vae.image_channels},
                 {"latent_channels", vae.latent_channels},
                 {"layers_per_block", vae.layers},
                 {"mid_block_add_attention", vae.has_attention},
                 {"norm_num_groups", 32},
                 {"use_quant_conv", vae.has_quant_conv},
                 {"use_post_quant_conv", vae.has_post_quant_conv}};
  if (defaults) config.update(SettingsOf(*defaults));
  return config.dump(2);
}

}  // namespace latentd::weights
