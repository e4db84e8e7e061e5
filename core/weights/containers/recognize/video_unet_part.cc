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
#include "core/weights/containers/recognize/unet_modules.h"
#include "core/weights/containers/recognize/unet_paths.h"

namespace latentd::weights {
namespace {

using device::Shape;
using nlohmann::json;
using Layer = UnetPaths::Layer;
using Block = UnetPaths::Block;

constexpr absl::string_view kVideoUnetPrefix = "model.diffusion_model.";
// Frames a second, motion, and noise on the image.
constexpr int64_t kVideoTimeIds = 3;
constexpr int64_t kVideoHeadSize = 64;
// As many as xt and xt-1.1 were trained on: no tensor tells img2vid, with 14, from these.
constexpr int64_t kVideoFrames = 25;
constexpr int64_t kVideoSampleSize = 96;

struct VideoUnetSizes {
  int64_t in_channels = 0, out_channels = 0;
  std::vector<int64_t> channels, layers, depths;  // by block on the way down
  std::vector<bool> attends_down, attends_up;     // up: from the smallest image
  int64_t cross_attention_dim = 0;
  int64_t added_features = 0;
};

// Takes a UNet's tensors module by module.
class VideoUnetReading : private UnetModules {
 public:
  VideoUnetReading(PartTensors tensors, UnetPaths paths)
      : UnetModules("the UNet of Stable Video Diffusion", std::move(tensors), std::move(paths)) {}

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
    if (!CheckBlockCounts()) return;
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
        reader_.Size(In(middle, "transformer_blocks.0.attn2.to_k.weight"), 1);
    for (const Block& block : paths_.down) {
      const Layer& first = block.layers.front();
      sizes_.channels.push_back(reader_.Size(In(first.resnet, "in_layers.2.weight"), 0));
      sizes_.layers.push_back(std::ssize(block.layers));
      sizes_.attends_down.push_back(!first.attention.empty());
      // diffusers gives the middle as many as the last block.
      sizes_.depths.push_back(DepthOf(first.attention.empty() ? middle : first.attention));
    }
    for (const Block& block : paths_.up) {
      sizes_.attends_up.push_back(!block.layers.front().attention.empty());
    }
  }

  void TakeAll() {
    const int64_t first = sizes_.channels.front();
    const auto take = [this](const Layer& layer, const Place& place) {
      TakeLayerAt(layer, place.block, place.layer, place.in, place.out);
    };
    TakeConvolutionIn(sizes_.in_channels, first);
    TakeTimeEmbedding(first);
    TakeAddedEmbedding(sizes_.added_features, first);
    TakeDown(sizes_.channels, take);
    TakeMiddle();
    TakeUp(sizes_.channels, take);
    TakeConvolutionOut(sizes_.out_channels, first);
  }

  void TakeMixer(const std::string& from, const std::string& to) {
    reader_.Take(In(from, "time_mixer.mix_factor"), In(to, "time_mixer.mix_factor"), {1});
  }

  // The block over the pixels, and under it the one over three frames.
  void TakeResnet(const std::string& from, const std::string& to, int64_t in, int64_t out) {
    TakeResidual(from, In(to, "spatial_res_block"), in, out, time_features());
    TakeResidual(In(from, "time_stack"), In(to, "temporal_res_block"), out, out, time_features(),
                 {3, 1, 1});
    TakeMixer(from, to);
  }

  void TakeTransformer(const std::string& from, const std::string& to, int64_t channels) {
    TakeNorm(In(from, "norm"), In(to, "norm"), channels);
    TakeWithBias(In(from, "proj_in"), In(to, "proj_in"), {channels, channels});
    for (int64_t i = 0; i < DepthOf(from); ++i) {
      TakeTransformerBlock(absl::StrCat(from, ".transformer_blocks.", i),
                           absl::StrCat(to, ".transformer_blocks.", i), channels,
                           sizes_.cross_attention_dim);
      const std::string frames = absl::StrCat(from, ".time_stack.", i);
      const std::string wanted = absl::StrCat(to, ".temporal_transformer_blocks.", i);
      TakeNorm(In(frames, "norm_in"), In(wanted, "norm_in"), channels);
      TakeFeedForward(In(frames, "ff_in"), In(wanted, "ff_in"), channels);
      TakeTransformerBlock(frames, wanted, channels, sizes_.cross_attention_dim);
    }
    TakeWithBias(In(from, "time_pos_embed.0"), In(to, "time_pos_embed.linear_1"),
                 {4 * channels, channels});
    TakeWithBias(In(from, "time_pos_embed.2"), In(to, "time_pos_embed.linear_2"),
                 {channels, 4 * channels});
    TakeMixer(from, to);
    TakeWithBias(In(from, "proj_out"), In(to, "proj_out"), {channels, channels});
  }

  void TakeLayerAt(const Layer& layer, const std::string& block, size_t index, int64_t in,
                   int64_t out) {
    TakeResnet(layer.resnet, absl::StrCat(block, ".resnets.", index), in, out);
    if (layer.attention.empty()) return;
    TakeTransformer(layer.attention, absl::StrCat(block, ".attentions.", index), out);
  }

  void TakeMiddle() {
    const int64_t channels = sizes_.channels.back();
    for (size_t i = 0; i < paths_.middle.size(); ++i) {
      TakeLayerAt(paths_.middle[i], "mid_block", i, channels, channels);
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

  VideoUnetSizes sizes_;
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
