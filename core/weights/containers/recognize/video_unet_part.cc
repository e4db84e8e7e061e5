#include "core/weights/containers/recognize/video_unet_part.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/weights/containers/recognize/refuse_file.h"
#include "core/weights/containers/recognize/unet_paths.h"

namespace latentd::weights {
namespace {

using device::Shape;
using nlohmann::json;
using Layer = UnetPaths::Layer;
using Block = UnetPaths::Block;

constexpr absl::string_view kVideoUnetPrefix = "model.diffusion_model.";
constexpr size_t kMostVideoBlocks = 16;
// Frames a second, motion, and noise on the image.
constexpr int64_t kVideoTimeIds = 3;
constexpr int64_t kVideoHeadSize = 64;
// As many as xt and xt-1.1 were trained on: no tensor tells img2vid, with 14, from these.
constexpr int64_t kVideoFrames = 25;
constexpr int64_t kVideoSampleSize = 96;

std::string Below(absl::string_view path, absl::string_view name) {
  return absl::StrCat(path, ".", name);
}

struct VideoUnetSizes {
  int64_t in_channels = 0, out_channels = 0;
  std::vector<int64_t> channels, layers, depths;  // by block on the way down
  std::vector<bool> attends_down, attends_up;     // up: from the smallest image
  int64_t cross_attention_dim = 0;
  int64_t added_features = 0;
};

// Takes a UNet's tensors module by module.
class VideoUnetReading {
 public:
  VideoUnetReading(PartTensors tensors, UnetPaths paths)
      : reader_("the UNet of Stable Video Diffusion", std::move(tensors)),
        paths_(std::move(paths)) {}

  absl::StatusOr<VideoUnetPart> Read(const std::string& path) && {
    CheckBlocks();
    if (!reader_.has_mistakes()) ReadSizes();
    if (!reader_.has_mistakes() && sizes_.added_features % kVideoTimeIds != 0) {
      return RefuseFile(path, " is a checkpoint of SV3D, which is not served: its UNet reads ",
                        sizes_.added_features, " added features, which are not those of ",
                        kVideoTimeIds, " numbers");
    }
    if (!reader_.has_mistakes()) TakeAll();
    ASSIGN_OR_RETURN(SourceMap sources, std::move(reader_).Finish(path));
    return VideoUnetPart{Config(path), std::move(sources)};
  }

 private:
  void CheckBlocks() {
    const size_t blocks = paths_.down.size();
    if (blocks == 0 || blocks > kMostVideoBlocks || paths_.up.size() != blocks) {
      reader_.Refuse(absl::StrCat("it has ", blocks, " blocks on the way down and ",
                                  paths_.up.size(), " on the way up"));
      return;
    }
    if (paths_.middle.size() != 2 || paths_.middle.front().attention.empty()) {
      reader_.Refuse("its middle is not a residual block, a transformer and a residual block");
    }
    for (size_t i = 0; i < blocks; ++i) {
      const Block& down = paths_.down[i];
      const Block& up = paths_.up[blocks - 1 - i];
      if (!down.layers.empty() && up.layers.size() == down.layers.size() + 1) continue;
      reader_.Refuse(absl::StrCat("block ", i, " has ", down.layers.size(),
                                  " layers on the way down and ", up.layers.size(),
                                  " on the way up, where one more is expected"));
    }
  }

  void ReadSizes() {
    sizes_.in_channels = reader_.Size("input_blocks.0.0.weight", 1);
    sizes_.out_channels = reader_.Size("out.2.weight", 0);
    sizes_.added_features = reader_.Size("label_emb.0.0.weight", 1);
    const std::string middle = paths_.middle.front().attention;
    sizes_.cross_attention_dim =
        reader_.Size(Below(middle, "transformer_blocks.0.attn2.to_k.weight"), 1);
    for (const Block& block : paths_.down) {
      const Layer& first = block.layers.front();
      sizes_.channels.push_back(reader_.Size(Below(first.resnet, "in_layers.2.weight"), 0));
      sizes_.layers.push_back(std::ssize(block.layers));
      sizes_.attends_down.push_back(!first.attention.empty());
      // diffusers gives the middle as many as the last block.
      sizes_.depths.push_back(DepthOf(first.attention.empty() ? middle : first.attention));
    }
    for (const Block& block : paths_.up) {
      sizes_.attends_up.push_back(!block.layers.front().attention.empty());
    }
  }

  int64_t DepthOf(const std::string& attention) const {
    return reader_.CountUnder(Below(attention, "transformer_blocks"));
  }

  void TakeAll() {
    const int64_t first = sizes_.channels.front();
    TakeWithBias("input_blocks.0.0", "conv_in", {first, sizes_.in_channels, 3, 3});
    TakeWithBias("time_embed.0", "time_embedding.linear_1", {time_features(), first});
    TakeWithBias("time_embed.2", "time_embedding.linear_2", {time_features(), time_features()});
    TakeWithBias("label_emb.0.0", "add_embedding.linear_1",
                 {time_features(), sizes_.added_features});
    TakeWithBias("label_emb.0.2", "add_embedding.linear_2", {time_features(), time_features()});
    TakeDown();
    TakeMiddle();
    TakeUp();
    TakeNorm("out.0", "conv_norm_out", first);
    TakeWithBias("out.2", "conv_out", {sizes_.out_channels, first, 3, 3});
  }

  void TakeWithBias(const std::string& from, const std::string& to, const Shape& weight) {
    reader_.Take(Below(from, "weight"), Below(to, "weight"), weight);
    reader_.Take(Below(from, "bias"), Below(to, "bias"), {weight[0]});
  }

  void TakeNorm(const std::string& from, const std::string& to, int64_t features) {
    reader_.Take(Below(from, "weight"), Below(to, "weight"), {features});
    reader_.Take(Below(from, "bias"), Below(to, "bias"), {features});
  }

  // Convolutions of 3 x 3 pixels, or over three frames.
  void TakeResidual(const std::string& from, const std::string& to, int64_t in, int64_t out,
                    bool over_frames) {
    const auto kernel = [&](int64_t channels) {
      return over_frames ? Shape{out, channels, 3, 1, 1} : Shape{out, channels, 3, 3};
    };
    TakeNorm(Below(from, "in_layers.0"), Below(to, "norm1"), in);
    TakeWithBias(Below(from, "in_layers.2"), Below(to, "conv1"), kernel(in));
    TakeWithBias(Below(from, "emb_layers.1"), Below(to, "time_emb_proj"), {out, time_features()});
    TakeNorm(Below(from, "out_layers.0"), Below(to, "norm2"), out);
    TakeWithBias(Below(from, "out_layers.3"), Below(to, "conv2"), kernel(out));
    if (in == out) return;
    TakeWithBias(Below(from, "skip_connection"), Below(to, "conv_shortcut"), {out, in, 1, 1});
  }

  void TakeMixer(const std::string& from, const std::string& to) {
    reader_.Take(Below(from, "time_mixer.mix_factor"), Below(to, "time_mixer.mix_factor"), {1});
  }

  // The block over the pixels, and under it the one over frames.
  void TakeResnet(const std::string& from, const std::string& to, int64_t in, int64_t out) {
    TakeResidual(from, Below(to, "spatial_res_block"), in, out, /*over_frames=*/false);
    TakeResidual(Below(from, "time_stack"), Below(to, "temporal_res_block"), out, out,
                 /*over_frames=*/true);
    TakeMixer(from, to);
  }

  // Without a bias but for the last.
  void TakeAttention(const std::string& from, const std::string& to, int64_t channels,
                     int64_t states) {
    for (const auto& [name, features] :
         {std::pair("to_q", channels), std::pair("to_k", states), std::pair("to_v", states)}) {
      reader_.Take(absl::StrCat(from, ".", name, ".weight"), absl::StrCat(to, ".", name, ".weight"),
                   {channels, features});
    }
    TakeWithBias(Below(from, "to_out.0"), Below(to, "to_out.0"), {channels, channels});
  }

  void TakeFeedForward(const std::string& from, const std::string& to, int64_t channels) {
    TakeWithBias(Below(from, "net.0.proj"), Below(to, "net.0.proj"), {8 * channels, channels});
    TakeWithBias(Below(from, "net.2"), Below(to, "net.2"), {channels, 4 * channels});
  }

  void TakeTransformerBlock(const std::string& from, const std::string& to, int64_t channels) {
    for (const char* norm : {"norm1", "norm2", "norm3"}) {
      TakeNorm(Below(from, norm), Below(to, norm), channels);
    }
    TakeAttention(Below(from, "attn1"), Below(to, "attn1"), channels, channels);
    TakeAttention(Below(from, "attn2"), Below(to, "attn2"), channels, sizes_.cross_attention_dim);
    TakeFeedForward(Below(from, "ff"), Below(to, "ff"), channels);
  }

  void TakeTransformer(const std::string& from, const std::string& to, int64_t channels) {
    TakeNorm(Below(from, "norm"), Below(to, "norm"), channels);
    TakeWithBias(Below(from, "proj_in"), Below(to, "proj_in"), {channels, channels});
    for (int64_t i = 0; i < DepthOf(from); ++i) {
      TakeTransformerBlock(absl::StrCat(from, ".transformer_blocks.", i),
                           absl::StrCat(to, ".transformer_blocks.", i), channels);
      const std::string frames = absl::StrCat(from, ".time_stack.", i);
      const std::string wanted = absl::StrCat(to, ".temporal_transformer_blocks.", i);
      TakeNorm(Below(frames, "norm_in"), Below(wanted, "norm_in"), channels);
      TakeFeedForward(Below(frames, "ff_in"), Below(wanted, "ff_in"), channels);
      TakeTransformerBlock(frames, wanted, channels);
    }
    TakeWithBias(Below(from, "time_pos_embed.0"), Below(to, "time_pos_embed.linear_1"),
                 {4 * channels, channels});
    TakeWithBias(Below(from, "time_pos_embed.2"), Below(to, "time_pos_embed.linear_2"),
                 {channels, 4 * channels});
    TakeMixer(from, to);
    TakeWithBias(Below(from, "proj_out"), Below(to, "proj_out"), {channels, channels});
  }

  void TakeLayer(const Layer& layer, const std::string& block, size_t index, int64_t in,
                 int64_t out) {
    TakeResnet(layer.resnet, absl::StrCat(block, ".resnets.", index), in, out);
    if (layer.attention.empty()) return;
    TakeTransformer(layer.attention, absl::StrCat(block, ".attentions.", index), out);
  }

  void TakeDown() {
    int64_t in = sizes_.channels.front();
    skips_ = {in};
    for (size_t i = 0; i < paths_.down.size(); ++i) {
      const Block& block = paths_.down[i];
      const std::string to = absl::StrCat("down_blocks.", i);
      const int64_t out = sizes_.channels[i];
      for (size_t j = 0; j < block.layers.size(); ++j) {
        TakeLayer(block.layers[j], to, j, std::exchange(in, out), out);
        skips_.push_back(out);
      }
      if (block.sampler.empty()) continue;
      TakeWithBias(block.sampler, to + ".downsamplers.0.conv", {out, out, 3, 3});
      skips_.push_back(out);
    }
  }

  void TakeMiddle() {
    const int64_t channels = sizes_.channels.back();
    for (size_t i = 0; i < paths_.middle.size(); ++i) {
      TakeLayer(paths_.middle[i], "mid_block", i, channels, channels);
    }
  }

  void TakeUp() {
    int64_t x = sizes_.channels.back();
    for (size_t i = 0; i < paths_.up.size(); ++i) {
      const Block& block = paths_.up[i];
      const std::string to = absl::StrCat("up_blocks.", i);
      const int64_t out = sizes_.channels[sizes_.channels.size() - 1 - i];
      for (size_t j = 0; j < block.layers.size(); ++j) {
        TakeLayer(block.layers[j], to, j, std::exchange(x, out) + skips_.back(), out);
        skips_.pop_back();
      }
      if (block.sampler.empty()) continue;
      TakeWithBias(block.sampler, to + ".upsamplers.0.conv", {out, out, 3, 3});
    }
  }

  absl::StatusOr<std::string> Config(const std::string& path) const {
    std::vector<int64_t> heads;
    for (const int64_t channels : sizes_.channels) {
      if (channels % kVideoHeadSize != 0) {
        return RefuseFile(path, ": the UNet has blocks of ", channels,
                          " channels, which make no whole heads of ", kVideoHeadSize, " channels",
                          kWhoSaysHeads);
      }
      heads.push_back(channels / kVideoHeadSize);
    }
    json down = json::array(), up = json::array();
    for (const bool attends : sizes_.attends_down) {
      down.push_back(attends ? "CrossAttnDownBlockSpatioTemporal" : "DownBlockSpatioTemporal");
    }
    for (const bool attends : sizes_.attends_up) {
      up.push_back(attends ? "CrossAttnUpBlockSpatioTemporal" : "UpBlockSpatioTemporal");
    }
    const json config = {{"_class_name", "UNetSpatioTemporalConditionModel"},
                         {"addition_time_embed_dim", sizes_.added_features / kVideoTimeIds},
                         {"block_out_channels", sizes_.channels},
                         {"cross_attention_dim", sizes_.cross_attention_dim},
                         {"down_block_types", std::move(down)},
                         {"in_channels", sizes_.in_channels},
                         {"layers_per_block", sizes_.layers},
                         {"num_attention_heads", heads},
                         {"num_frames", kVideoFrames},
                         {"out_channels", sizes_.out_channels},
                         {"projection_class_embeddings_input_dim", sizes_.added_features},
                         {"sample_size", kVideoSampleSize},
                         {"transformer_layers_per_block", sizes_.depths},
                         {"up_block_types", std::move(up)}};
    return config.dump(2);
  }

  int64_t time_features() const { return 4 * sizes_.channels.front(); }

  PartReader reader_;
  UnetPaths paths_;
  VideoUnetSizes sizes_;
  std::vector<int64_t> skips_;  // channels of what the way up takes from the way down
};

}  // namespace

bool HasVideoUnet(const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (!absl::StartsWith(name, kVideoUnetPrefix)) continue;
    if (absl::StrContains(name, ".time_stack.") || absl::EndsWith(name, ".time_mixer.mix_factor")) {
      return true;
    }
  }
  return false;
}

absl::StatusOr<VideoUnetPart> ReadVideoUnet(const std::string& path, const TensorMap& tensors) {
  PartTensors part = TensorsUnder(tensors, kVideoUnetPrefix);
  std::optional<UnetPaths> paths = FindUnetPaths(part);
  if (!paths) return RefuseFile(path, ": its UNet has no blocks");
  return VideoUnetReading(std::move(part), *std::move(paths)).Read(path);
}

}  // namespace latentd::weights
