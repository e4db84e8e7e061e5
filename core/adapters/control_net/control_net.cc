#include "core/adapters/control_net/control_net.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/adapters/control_net/control_net_weights.h"
#include "core/adapters/control_net/ldm_names.h"
#include "core/base/errors/status_macros.h"
#include "core/networks/control_net.h"

namespace latentd::adapters {
namespace {

using networks::ControlNetConfig;
using networks::Unet2dConditionConfig;

constexpr absl::string_view kHint = "controlnet_cond_embedding.";
// Convolutions of a hint: two for each level but the first.
constexpr int kMostHintBlocks = 16;
constexpr int64_t kMostImageLayers = 64;  // layers of a ControlNet-Union

// Rows of a tensor; 0: there is no such one.
int64_t RowsOf(const weights::TensorMap& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  if (found == tensors.end() || found->second.data.shape().rank() == 0) return 0;
  return found->second.data.shape()[0];
}

// Channels of the hint's convolutions as the tensors have them.
std::vector<int64_t> HintFeaturesOf(const weights::TensorMap& tensors) {
  std::vector<int64_t> features = {RowsOf(tensors, absl::StrCat(kHint, "conv_in.weight"))};
  for (int block = 1; block < kMostHintBlocks; block += 2) {
    const int64_t rows = RowsOf(tensors, absl::StrCat(kHint, "blocks.", block, ".weight"));
    if (rows == 0) break;
    features.push_back(rows);
  }
  return features;
}

// Types of maps that a ControlNet-Union tells apart; 0: the net is none.
int64_t ImageTypesOf(const weights::TensorMap& tensors) {
  return std::min(RowsOf(tensors, "task_embedding"), ControlNetConfig::kMostImageTypes);
}

int64_t ImageLayersOf(const weights::TensorMap& tensors) {
  int64_t layers = 0;
  while (layers < kMostImageLayers &&
         tensors.contains(absl::StrCat("transformer_layes.", layers, ".ln_1.weight"))) {
    ++layers;
  }
  return layers;
}

// The configuration of a single file, which has no config.json: a copy of the UNet's way down.
ControlNetConfig ConfigLike(const Unet2dConditionConfig& unet, const weights::TensorMap& tensors) {
  ControlNetConfig config{.unet = unet};
  config.unet.time_cond_proj_dim = 0;
  config.unet.in_channels = unet.out_channels;
  config.hint_features = HintFeaturesOf(tensors);
  config.image_types = ImageTypesOf(tensors);
  config.image_layers = ImageLayersOf(tensors);
  if (config.hint_features.front() == 0) config.hint_features = ControlNetConfig().hint_features;
  return config;
}

std::string Sizes(const Unet2dConditionConfig& unet) {
  return absl::StrCat("text of ", unet.cross_attention_dim, " features",
                      unet.text_time ? " and sizes" : "");
}

// Difference of what both read and of what one says to the other; empty: there is none.
std::string DifferenceOf(const Unet2dConditionConfig& net, const Unet2dConditionConfig& unet) {
  if (net.cross_attention_dim != unet.cross_attention_dim || net.text_time != unet.text_time) {
    return absl::StrCat("it reads ", Sizes(net), ", and the model's UNet ", Sizes(unet));
  }
  if (net.addition_time_embed_dim != unet.addition_time_embed_dim ||
      net.addition_input_dim != unet.addition_input_dim) {
    return "it embeds sizes otherwise than the model's UNet";
  }
  if (net.in_channels != unet.out_channels) {
    return absl::StrCat("it reads latents of ", net.in_channels, " channels, and the model has ",
                        unet.out_channels);
  }
  constexpr int64_t kSide = 64;
  if (networks::ResidualShapes(net, kSide, kSide) != networks::ResidualShapes(unet, kSide, kSide)) {
    return "its blocks are not those of the model's UNet";
  }
  return "";
}

// The attention of a UNet tells how wide the text is that it reads; 0: there is none.
int64_t TextFeaturesOf(const weights::TensorMap& tensors) {
  constexpr absl::string_view kKeys = ".attn2.to_k.weight";
  for (const auto& [name, tensor] : tensors) {
    const bool is_key = name.size() > kKeys.size() &&
                        absl::string_view(name).substr(name.size() - kKeys.size()) == kKeys;
    if (is_key && tensor.data.shape().rank() == 2) return tensor.data.shape()[1];
  }
  return 0;
}

absl::Status Refuse(const LoraFile& file, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(file.path, ": is a ControlNet for another model: ", why));
}

absl::StatusOr<ControlNet> Checked(ControlNet net) {
  const absl::Status fits = CheckTensors(net.config, net.tensors);
  if (fits.ok()) return net;
  return absl::Status(fits.code(), absl::StrCat(net.path, ": ", fits.message()));
}

}  // namespace

absl::StatusOr<ControlNet> MakeControlNet(std::string name, const LoraFile& file,
                                          const Unet2dConditionConfig& unet) {
  ControlNet net{.name = std::move(name), .path = file.path};
  net.tensors = WithDiffusersNames(file.tensors, unet);
  if (file.adapter_config.empty()) {
    const int64_t features = TextFeaturesOf(net.tensors);
    if (features != 0 && features != unet.cross_attention_dim) {
      return Refuse(file, absl::StrCat("it reads text of ", features,
                                       " features, and the model's UNet ", Sizes(unet)));
    }
    net.config = ConfigLike(unet, net.tensors);
    return Checked(std::move(net));
  }
  ASSIGN_OR_RETURN(net.config, networks::ParseControlNetConfig(
                                   file.adapter_config, absl::StrCat(file.path, "'s config.json")));
  const std::string difference = DifferenceOf(net.config.unet, unet);
  if (!difference.empty()) return Refuse(file, difference);
  return Checked(std::move(net));
}

}  // namespace latentd::adapters
