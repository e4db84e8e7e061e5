#include "core/weights/containers/recognize/unet_part.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/weights/containers/recognize/refuse_file.h"
#include "core/weights/containers/recognize/unet_modules.h"

namespace latentd::weights {
namespace {

using device::Shape;
using nlohmann::json;
using Layer = UnetPaths::Layer;
using Block = UnetPaths::Block;

constexpr size_t kMostLayers = 15;

constexpr absl::string_view kUnetPrefixes[] = {"model.diffusion_model.", "diffusion_model.",
                                               "model.model.", "unet.", ""};

// Takes a UNet's tensors module by module, in the order in which they are evaluated.
class UnetReading : private UnetModules {
 public:
  UnetReading(PartTensors tensors, UnetPaths paths)
      : UnetModules("the UNet", std::move(tensors), std::move(paths)) {}

  absl::StatusOr<UnetPart> Read(const std::string& path) && {
    CheckBlocks();
    if (!reader_.has_mistakes()) ReadSizes();
    if (!reader_.has_mistakes()) {
      TakeEmbeddings();
      TakeDown(unet_.channels, [&](const Layer& layer, const Place& place) {
        TakeLayerOf(unet_.down, layer, place);
      });
      TakeMiddle();
      TakeUp(unet_.channels,
             [&](const Layer& layer, const Place& place) { TakeLayerOf(unet_.up, layer, place); });
      TakeConvolutionOut(unet_.out_channels, unet_.channels.front());
    }
    ASSIGN_OR_RETURN(SourceMap sources, std::move(reader_).Finish(path));
    return UnetPart{std::move(unet_), std::move(sources)};
  }

 private:
  void CheckBlocks() {
    const size_t blocks = paths_.down.size();
    if (!CheckBlockCounts()) return;
    for (size_t i = 0; i < blocks; ++i) {
      CheckBlock(paths_.down[i], "down", i, i + 1 == blocks);
      CheckBlock(paths_.up[i], "up", i, i + 1 == blocks);
      const size_t down = paths_.down[i].layers.size();
      const size_t up = paths_.up[blocks - 1 - i].layers.size();
      if (up == down + 1) continue;
      reader_.Refuse(absl::StrCat("block ", i, " has ", down, " layers on the way down and ", up,
                                  " on the way up, where one more is expected"));
    }
    if (paths_.middle.size() == 2 && paths_.middle.front().attention.empty()) {
      reader_.Refuse("its middle has two residual blocks and no attention between");
    }
  }

  void CheckBlock(const Block& block, absl::string_view way, size_t index, bool is_last) {
    const auto attends = [](const Layer& layer) { return !layer.attention.empty(); };
    const auto count = static_cast<size_t>(absl::c_count_if(block.layers, attends));
    const std::string name = absl::StrCat("block ", index, " on the way ", way);
    if (block.layers.empty() || block.layers.size() > kMostLayers + 1) {
      reader_.Refuse(absl::StrCat(name, " has ", block.layers.size(), " layers"));
    }
    if (count != 0 && count != block.layers.size()) {
      reader_.Refuse(
          absl::StrCat(name, " has attention in ", count, " of ", block.layers.size(), " layers"));
    }
    if (block.sampler.empty() == is_last) return;
    reader_.Refuse(absl::StrCat(
        name, is_last ? " changes the size, and is the last one" : " does not change the size"));
  }

  // The first attention on the way down, or in the middle, or on the way up.
  std::string FirstAttention() const {
    for (const auto* blocks : {&paths_.down, &paths_.up}) {
      for (const Block& block : *blocks) {
        if (!block.layers.front().attention.empty()) return block.layers.front().attention;
      }
    }
    return paths_.middle.empty() ? "" : paths_.middle.front().attention;
  }

  void ReadSizes() {
    const UnetSpelling& spelling = paths_.spelling;
    const std::string conv_in = In(spelling.conv_in, "weight");
    unet_.in_channels = reader_.Size(conv_in, 1);
    unet_.out_channels = reader_.Size(In(spelling.conv_out, "weight"), 0);
    for (const Block& block : paths_.down) {
      const std::string conv = In(In(block.layers.front().resnet, spelling.conv1), "weight");
      unet_.channels.push_back(reader_.Size(conv, 0));
      unet_.layers.push_back(std::ssize(block.layers));
    }
    ReadAttentionSizes(FirstAttention());
    if (reader_.HasUnder(spelling.add_linear_1)) {
      unet_.added_features = reader_.Size(In(spelling.add_linear_1, "weight"), 1);
    }
    if (reader_.HasUnder(spelling.time_cond_proj)) {
      unet_.time_cond_features = reader_.Size(In(spelling.time_cond_proj, "weight"), 1);
    }
  }

  void ReadAttentionSizes(const std::string& attention) {
    if (attention.empty()) {
      reader_.Refuse("it has no attention to text");
      return;
    }
    const std::string keys = In(attention, "transformer_blocks.0.attn2.to_k.weight");
    unet_.cross_attention_dim = reader_.Size(keys, 1);
    unet_.is_linear = reader_.Rank(In(attention, "proj_in.weight")) == 2;
  }

  void TakeEmbeddings() {
    const int64_t first = unet_.channels.front();
    TakeConvolutionIn(unet_.in_channels, first);
    TakeTimeEmbedding(first);
    if (unet_.time_cond_features > 0) {
      reader_.Take(In(paths_.spelling.time_cond_proj, "weight"), "time_embedding.cond_proj.weight",
                   {first, unet_.time_cond_features});
    }
    if (unet_.added_features > 0) TakeAddedEmbedding(unet_.added_features, first);
  }

  void TakeProjection(const std::string& from, const std::string& to, int64_t channels) {
    const Shape shape =
        unet_.is_linear ? Shape{channels, channels} : Shape{channels, channels, 1, 1};
    reader_.TakeMatrix(In(from, "weight"), In(to, "weight"), shape);
    reader_.Take(In(from, "bias"), In(to, "bias"), {channels});
  }

  // The number of its layers.
  int64_t TakeTransformer(const std::string& from, const std::string& to, int64_t channels) {
    const int64_t depth = DepthOf(from);
    TakeNorm(In(from, "norm"), In(to, "norm"), channels);
    TakeProjection(In(from, "proj_in"), In(to, "proj_in"), channels);
    for (int64_t i = 0; i < depth; ++i) {
      TakeTransformerBlock(absl::StrCat(from, ".transformer_blocks.", i),
                           absl::StrCat(to, ".transformer_blocks.", i), channels,
                           unet_.cross_attention_dim);
    }
    TakeProjection(In(from, "proj_out"), In(to, "proj_out"), channels);
    return depth;
  }

  void TakeResnet(const std::string& from, const std::string& to, int64_t in, int64_t out) {
    TakeResidual(from, to, in, out, /*time_features=*/4 * unet_.channels.front());
  }

  // Takes it, and adds its depth to those of the blocks of its way.
  void TakeLayerOf(std::vector<UnetArchitecture::Depths>& blocks, const Layer& layer,
                   const Place& place) {
    blocks.resize(place.number + 1);
    TakeResnet(layer.resnet, absl::StrCat(place.block, ".resnets.", place.layer), place.in,
               place.out);
    if (layer.attention.empty()) return;
    blocks.back().push_back(TakeTransformer(
        layer.attention, absl::StrCat(place.block, ".attentions.", place.layer), place.out));
  }

  void TakeMiddle() {
    unet_.has_middle = !paths_.middle.empty();
    const int64_t channels = unet_.channels.back();
    for (size_t i = 0; i < paths_.middle.size(); ++i) {
      const Layer& layer = paths_.middle[i];
      TakeResnet(layer.resnet, absl::StrCat("mid_block.resnets.", i), channels, channels);
      if (layer.attention.empty()) continue;
      unet_.middle_depth = TakeTransformer(layer.attention, "mid_block.attentions.0", channels);
    }
    if (paths_.middle.size() == 1 && unet_.middle_depth > 0) {
      reader_.Refuse("its middle has no residual block behind its attention");
    }
  }

  UnetArchitecture unet_;
};

bool AreEqual(const UnetArchitecture::Depths& depths) {
  return absl::c_all_of(depths, [&](int64_t depth) { return depth == depths.front(); });
}

// A number where all layers of a block are equal, as diffusers writes it.
json DepthsOf(const UnetArchitecture::Depths& depths, int64_t without_attention) {
  if (depths.empty()) return without_attention;
  return AreEqual(depths) ? json(depths.front()) : json(depths);
}

// True if the way up is the way down in reverse, with one more layer of the same depth.
bool IsMirrored(const UnetArchitecture& unet) {
  for (size_t i = 0; i < unet.up.size(); ++i) {
    const auto& up = unet.up[i];
    const auto& down = unet.down[unet.down.size() - 1 - i];
    if (!AreEqual(up) || !AreEqual(down)) return false;
    if (!up.empty() && !down.empty() && up.front() != down.front()) return false;
    if (up.empty() != down.empty()) return false;
  }
  return true;
}

void SetTransformers(const UnetArchitecture& unet, json& config) {
  json down = json::array(), up = json::array(), down_types = json::array(),
       up_types = json::array();
  for (size_t i = 0; i < unet.down.size(); ++i) {
    // diffusers gives the middle as many layers as the last block.
    const bool is_last = i + 1 == unet.down.size();
    down.push_back(DepthsOf(unet.down[i], is_last ? std::max<int64_t>(unet.middle_depth, 1) : 1));
    up.push_back(DepthsOf(unet.up[i], 1));
    down_types.push_back(unet.down[i].empty() ? "DownBlock2D" : "CrossAttnDownBlock2D");
    up_types.push_back(unet.up[i].empty() ? "UpBlock2D" : "CrossAttnUpBlock2D");
  }
  config["down_block_types"] = std::move(down_types);
  config["up_block_types"] = std::move(up_types);
  config["transformer_layers_per_block"] = std::move(down);
  if (!IsMirrored(unet)) config["reverse_transformer_layers_per_block"] = std::move(up);
  if (!unet.has_middle) config["mid_block_type"] = nullptr;
  if (unet.has_middle && unet.middle_depth == 0) config["mid_block_type"] = "UNetMidBlock2D";
}

absl::StatusOr<std::vector<int64_t>> HeadsOf(const UnetArchitecture& unet, int64_t heads) {
  constexpr int64_t kHeadSize = 64;
  std::vector<int64_t> counts;
  for (const int64_t channels : unet.channels) {
    if (channels % (heads == 0 ? kHeadSize : heads) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the UNet has blocks of ", channels, " channels, which make no whole heads of ",
          heads == 0 ? absl::StrCat(kHeadSize, " channels") : absl::StrCat(heads, " in a block"),
          kWhoSaysHeads));
    }
    counts.push_back(heads == 0 ? channels / kHeadSize : heads);
  }
  return counts;
}

// The middle has the depth of the last block in every file that diffusers can write.
absl::Status CheckMiddle(const UnetArchitecture& unet) {
  const auto& last = unet.down.back();
  if (unet.middle_depth == 0 || last.empty() || last.front() == unet.middle_depth) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("the UNet's middle has ", unet.middle_depth,
                                                 " transformer layers and the block before it ",
                                                 last.front(), "; equal numbers are supported"));
}

}  // namespace

std::optional<PartTensors> FindUnet(const TensorMap& tensors) {
  for (const absl::string_view prefix : kUnetPrefixes) {
    PartTensors part = TensorsUnder(tensors, prefix);
    if (FindUnetPaths(part)) return part;
  }
  return std::nullopt;
}

absl::StatusOr<UnetPart> ReadUnet(const std::string& path, PartTensors tensors) {
  std::optional<UnetPaths> paths = FindUnetPaths(tensors);
  if (!paths) return absl::InvalidArgumentError(absl::StrCat(path, ": there is no UNet in it"));
  return UnetReading(std::move(tensors), *std::move(paths)).Read(path);
}

absl::StatusOr<std::string> UnetConfig(const UnetArchitecture& unet, const UnetDefaults& defaults) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> heads, HeadsOf(unet, defaults.heads));
  RETURN_IF_ERROR(CheckMiddle(unet));
  json config = {{"_class_name", "UNet2DConditionModel"},
                 {"act_fn", "silu"},
                 {"attention_head_dim", heads},
                 {"block_out_channels", unet.channels},
                 {"cross_attention_dim", unet.cross_attention_dim},
                 {"downsample_padding", 1},
                 {"flip_sin_to_cos", true},
                 {"freq_shift", 0},
                 {"in_channels", unet.in_channels},
                 {"layers_per_block", unet.layers},
                 {"norm_eps", 1e-5},
                 {"norm_num_groups", 32},
                 {"out_channels", unet.out_channels},
                 {"sample_size", {defaults.height, defaults.width}},
                 {"upcast_attention", defaults.upcast_attention},
                 {"use_linear_projection", unet.is_linear}};
  SetTransformers(unet, config);
  if (unet.added_features > 0) {
    config["addition_embed_type"] = "text_time";
    config["addition_time_embed_dim"] = defaults.time_features;
    config["projection_class_embeddings_input_dim"] = unet.added_features;
  }
  if (unet.time_cond_features > 0) config["time_cond_proj_dim"] = unet.time_cond_features;
  return config.dump(2);
}

}  // namespace latentd::weights
