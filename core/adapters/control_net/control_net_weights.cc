#include "core/adapters/control_net/control_net_weights.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/adapters/lora/network_tensors.h"
#include "core/base/errors/status_macros.h"
#include "core/device/dtype.h"
#include "core/graph/graph_builder.h"
#include "core/networks/control_net.h"

namespace latentd::adapters {
namespace {

using device::Shape;
using graph::GraphBuilder;
using graph::Rate;
using graph::Value;
using networks::ControlNetConfig;

// A size of latents, of prompts and of time ids: no weight has any of them in its shape.
constexpr int64_t kSide = 8, kTokens = 1, kTimeIds = 1;
constexpr absl::string_view kComponent = "net";

Value Input(GraphBuilder& b, const char* name, Shape shape) {
  return b.Input(name, device::DType::kF32, std::move(shape), Rate::kStep);
}

absl::StatusOr<graph::Graph> NetworkOf(const ControlNetConfig& config) {
  GraphBuilder b;
  networks::Unet2dConditionInputs inputs;
  inputs.sample = Input(b, "sample", {1, config.unet.in_channels, kSide, kSide});
  inputs.timestep = Input(b, "timestep", {1});
  inputs.encoder_hidden_states = Input(b, "text", {1, kTokens, config.unet.cross_attention_dim});
  if (config.unet.text_time) {
    inputs.text_embeds = Input(b, "pooled", {1, config.unet.TextEmbedFeatures(kTimeIds)});
    inputs.time_ids = Input(b, "time_ids", {1, kTimeIds});
  }
  const int64_t side = kSide * config.hint_scale();
  const Value image = Input(b, "image", {1, config.hint_channels, side, side});
  Value types;
  if (config.is_union()) {
    types = Input(b, "types", {1, config.image_types});
    inputs.added_time = networks::ImageTypeEmbedding(b, config, kComponent, types);
  }
  const Value hint = networks::ControlNetHint(b, config, kComponent, image, types);
  const std::vector<Value> residuals = networks::ControlNet(b, config, kComponent, inputs, hint);
  for (size_t i = 0; i < residuals.size(); ++i) b.Output(absl::StrCat(i), residuals[i]);
  return std::move(b).Build();
}

}  // namespace

absl::Status CheckTensors(const ControlNetConfig& config, const weights::TensorMap& tensors) {
  ASSIGN_OR_RETURN(const graph::Graph network, NetworkOf(config));
  return CheckNetworkTensors(network, kComponent, "a ControlNet for it", tensors);
}

}  // namespace latentd::adapters
