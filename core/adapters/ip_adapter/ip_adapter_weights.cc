#include "core/adapters/ip_adapter/ip_adapter_weights.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/adapters/ip_adapter/ip_adapter.h"
#include "core/adapters/lora/network_tensors.h"
#include "core/base/errors/status_macros.h"
#include "core/device/dtype.h"
#include "core/graph/graph_builder.h"
#include "core/networks/cross_attentions.h"

namespace latentd::adapters {
namespace {

using device::Shape;
using networks::CrossAttention;
using networks::IpAdapterConfig;
using weights::TensorMap;

constexpr absl::string_view kAdapterComponent = "adapter";
// Patches of an image: no weight has their number in its shape.
constexpr int64_t kPatches = 2;
constexpr int64_t kMostLayers = 64;

// Kinds that are not served, by a tensor that only they have.
struct OtherVariant {
  absl::string_view tensor, name;
};
constexpr OtherVariant kOthers[] = {
    {"image_proj.perceiver_resampler.proj_in.weight", "a FaceID plus"},
    {"image_proj.proj.3.weight", "a full-face"},
    {"image_proj.proj.2.weight", "a FaceID"},
};

Shape ShapeOf(const TensorMap& tensors, const std::string& name) {
  const auto found = tensors.find(absl::StrCat("image_proj.", name));
  return found == tensors.end() ? Shape() : found->second.data.shape();
}

absl::Status Lacks(absl::string_view name) {
  return absl::InvalidArgumentError(
      absl::StrCat("is no whole IP-Adapter: it lacks image_proj.", name,
                   ", or that has another shape than such tensors have"));
}

absl::StatusOr<IpAdapterConfig> ConfigOfLinear(const TensorMap& tensors) {
  const Shape projection = ShapeOf(tensors, "proj.weight");
  const Shape norm = ShapeOf(tensors, "norm.weight");
  if (projection.rank() != 2) return Lacks("proj.weight");
  if (norm.rank() != 1 || norm[0] == 0 || projection[0] % norm[0] != 0) return Lacks("norm.weight");
  return IpAdapterConfig{.projection = IpAdapterConfig::Projection::kLinear,
                         .image_features = projection[1],
                         .tokens = projection[0] / norm[0],
                         .text_features = norm[0]};
}

absl::StatusOr<IpAdapterConfig> ConfigOfResampler(const TensorMap& tensors) {
  const Shape latents = ShapeOf(tensors, "latents"), in = ShapeOf(tensors, "proj_in.weight");
  const Shape norm = ShapeOf(tensors, "norm_out.weight");
  const Shape query = ShapeOf(tensors, "layers.0.0.to_q.weight");
  const Shape hidden = ShapeOf(tensors, "layers.0.1.1.weight");
  if (latents.rank() != 3) return Lacks("latents");
  if (in.rank() != 2) return Lacks("proj_in.weight");
  if (norm.rank() != 1) return Lacks("norm_out.weight");
  if (query.rank() != 2 || query[0] == 0 || query[0] % networks::kResamplerHead != 0) {
    return Lacks("layers.0.0.to_q.weight");
  }
  if (hidden.rank() != 2) return Lacks("layers.0.1.1.weight");
  IpAdapterConfig config{.projection = IpAdapterConfig::Projection::kResampler,
                         .image_features = in[1],
                         .tokens = latents[1],
                         .text_features = norm[0],
                         .width = latents[2],
                         .heads = query[0] / networks::kResamplerHead,
                         .hidden = hidden[0],
                         .layers = 1};
  while (config.layers < kMostLayers &&
         ShapeOf(tensors, absl::StrCat("layers.", config.layers, ".0.to_q.weight")).rank() > 0) {
    ++config.layers;
  }
  return config;
}

absl::StatusOr<graph::Graph> AdapterNetwork(const IpAdapterConfig& config,
                                            const networks::Unet2dConditionConfig& unet) {
  graph::GraphBuilder b;
  const bool of_patches = config.projection == IpAdapterConfig::Projection::kResampler;
  const Shape shape =
      of_patches ? Shape{1, kPatches, config.image_features} : Shape{1, config.image_features};
  const graph::Value image = b.Input("image", device::DType::kF32, shape, graph::Rate::kStep);
  const graph::Value tokens = networks::ImageTokens(b, config, kAdapterComponent, image);
  int outputs = 0;
  for (const auto& read : networks::ReadTokens(b, unet, kAdapterComponent, tokens)) {
    b.Output(absl::StrCat(outputs++), read.keys);
    b.Output(absl::StrCat(outputs++), read.values);
  }
  return std::move(b).Build();
}

}  // namespace

absl::StatusOr<IpAdapterConfig> ConfigOfTensors(const TensorMap& tensors) {
  for (const auto& [tensor, name] : kOthers) {
    if (!tensors.contains(tensor)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("is ", name, " IP-Adapter, which is not served: base and plus are"));
  }
  const bool is_plus = tensors.contains("image_proj.latents");
  ASSIGN_OR_RETURN(const IpAdapterConfig config,
                   is_plus ? ConfigOfResampler(tensors) : ConfigOfLinear(tensors));
  if (config.tokens >= 1 && config.tokens <= kMaxImageTokens) return config;
  return absl::InvalidArgumentError(absl::StrCat(
      "makes ", config.tokens, " tokens of an image; served are those of 1 to ", kMaxImageTokens));
}

TensorMap WithModuleNames(const TensorMap& tensors, const networks::Unet2dConditionConfig& unet) {
  std::vector<CrossAttention> attentions = networks::CrossAttentionsOf(unet);
  absl::c_stable_partition(attentions, [](const CrossAttention& one) { return !one.is_middle; });
  absl::flat_hash_map<std::string, std::string> names;
  for (size_t i = 0; i < attentions.size(); ++i) {
    for (const char* weight : {".to_k_ip.weight", ".to_v_ip.weight"}) {
      names[absl::StrCat("ip_adapter.", 2 * i + 1, weight)] =
          absl::StrCat(attentions[i].path, weight);
    }
  }
  TensorMap named;
  for (const auto& [name, tensor] : tensors) {
    const auto found = names.find(name);
    named.emplace(found == names.end() ? name : found->second, tensor);
  }
  return named;
}

absl::Status CheckIpAdapterTensors(const IpAdapterConfig& config,
                                   const networks::Unet2dConditionConfig& unet,
                                   const TensorMap& tensors) {
  ASSIGN_OR_RETURN(const graph::Graph network, AdapterNetwork(config, unet));
  return CheckNetworkTensors(network, kAdapterComponent, "an IP-Adapter for it", tensors);
}

}  // namespace latentd::adapters
