#include "tests/golden/network_graphs.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/graph/graph_builder.h"
#include "core/networks/autoencoder_kl.h"
#include "core/networks/autoencoder_temporal.h"
#include "core/networks/autoencoder_tiny.h"
#include "core/networks/clip_text.h"
#include "core/networks/clip_vision.h"
#include "core/networks/control_net.h"
#include "core/networks/ip_adapter.h"
#include "core/networks/unet_2d_condition.h"
#include "core/networks/unet_spatio_temporal.h"

namespace latentd::golden {
namespace {

using device::DType;
using graph::Graph;
using graph::GraphBuilder;
using graph::Rate;
using graph::Value;
using Graphs = absl::StatusOr<std::vector<Graph>>;

constexpr char kConfig[] = "config.json";

// An input of the case; without one, a failure of the builder.
Value Input(GraphBuilder& b, const InputShapes& inputs, const std::string& name, Rate rate,
            DType dtype = DType::kF32) {
  auto found = inputs.find(name);
  if (found == inputs.end()) {
    b.Fail(absl::InvalidArgumentError(absl::StrCat("the case has no tensor in.", name)));
    return b.Input(name, dtype, {1}, rate);
  }
  return b.Input(name, dtype, found->second, rate);
}

Graphs One(GraphBuilder b) {
  ASSIGN_OR_RETURN(Graph graph, std::move(b).Build());
  return std::vector<Graph>{std::move(graph)};
}

networks::Unet2dConditionInputs UnetInputs(GraphBuilder& b, const InputShapes& inputs,
                                           bool text_time) {
  networks::Unet2dConditionInputs values = {
      .sample = Input(b, inputs, "sample", Rate::kStep),
      .timestep = Input(b, inputs, "timestep", Rate::kStep),
      .encoder_hidden_states = Input(b, inputs, "encoder_hidden_states", Rate::kRequest)};
  if (!text_time) return values;
  values.text_embeds = Input(b, inputs, "text_embeds", Rate::kRequest);
  values.time_ids = Input(b, inputs, "time_ids", Rate::kRequest);
  return values;
}

std::string ResidualName(size_t index) { return absl::StrCat("residual.", index); }

Graphs UnetGraphs(absl::string_view text, const InputShapes& inputs) {
  ASSIGN_OR_RETURN(const auto config, networks::ParseUnet2dConditionConfig(text, kConfig));
  GraphBuilder b;
  networks::Unet2dConditionInputs values = UnetInputs(b, inputs, config.text_time);
  for (size_t i = 0; inputs.contains(ResidualName(i)); ++i) {
    values.residuals.push_back(Input(b, inputs, ResidualName(i), Rate::kStep));
  }
  b.Output("out", networks::Unet2dCondition(b, config, kComponent, values));
  return One(std::move(b));
}

// Hint and network are one graph here, and two when latentd serves them.
Graphs ControlNetGraphs(absl::string_view text, const InputShapes& inputs) {
  ASSIGN_OR_RETURN(const auto config, networks::ParseControlNetConfig(text, kConfig));
  GraphBuilder b;
  networks::Unet2dConditionInputs values = UnetInputs(b, inputs, config.unet.text_time);
  Value types;
  if (config.is_union()) {
    types = Input(b, inputs, "types", Rate::kStep);
    values.added_time = networks::ImageTypeEmbedding(b, config, kComponent, types);
  }
  const Value image = Input(b, inputs, "image", Rate::kStep);
  const Value hint = networks::ControlNetHint(b, config, kComponent, image, types);
  const std::vector<Value> residuals = networks::ControlNet(b, config, kComponent, values, hint);
  for (size_t i = 0; i < residuals.size(); ++i) b.Output(ResidualName(i), residuals[i]);
  return One(std::move(b));
}

Graphs VideoUnetGraphs(absl::string_view text, const InputShapes& inputs) {
  ASSIGN_OR_RETURN(const auto config, networks::ParseUnetSpatioTemporalConfig(text, kConfig));
  GraphBuilder b;
  const networks::UnetSpatioTemporalInputs values = {
      .sample = Input(b, inputs, "sample", Rate::kStep),
      .timestep = Input(b, inputs, "timestep", Rate::kStep),
      .encoder_hidden_states = Input(b, inputs, "encoder_hidden_states", Rate::kRequest),
      .time_ids = Input(b, inputs, "time_ids", Rate::kRequest)};
  b.Output("out", networks::UnetSpatioTemporal(b, config, kComponent, values));
  return One(std::move(b));
}

Graphs ImageEncoderGraphs(absl::string_view text, const InputShapes& inputs) {
  ASSIGN_OR_RETURN(const auto config, networks::ParseClipVisionConfig(text, kConfig));
  GraphBuilder b;
  const Value pixels = Input(b, inputs, "pixel_values", Rate::kStep);
  b.Output("image_embeds", networks::ClipVision(b, config, kComponent, pixels));
  return One(std::move(b));
}

// Its sizes are in the case: files have no configuration.
Graphs ProjectionGraphs(absl::string_view text, const InputShapes& inputs) {
  using Config = networks::IpAdapterConfig;
  const auto sizes = nlohmann::json::parse(text);
  const bool is_plus = sizes.value("kind", "") == "plus";
  const Config config = {
      .projection = is_plus ? Config::Projection::kResampler : Config::Projection::kLinear,
      .image_features = sizes.value("image_features", int64_t{0}),
      .tokens = sizes.value("tokens", int64_t{0}),
      .text_features = sizes.value("text_features", int64_t{0}),
      .width = sizes.value("width", int64_t{0}),
      .heads = sizes.value("heads", int64_t{0}),
      .hidden = sizes.value("hidden", int64_t{0}),
      .layers = sizes.value("layers", int64_t{0})};
  GraphBuilder b;
  const Value image = Input(b, inputs, "image", Rate::kStep);
  b.Output("tokens", networks::ImageTokens(b, config, kComponent, image));
  return One(std::move(b));
}

// Encoder and decoder are two graphs, as they are when latentd serves them.
template <typename Config>
Graphs EncoderAndDecoder(const Config& config, const InputShapes& inputs,
                         const std::string& encoded,
                         Value (*encode)(GraphBuilder&, const Config&, absl::string_view, Value),
                         Value (*decode)(GraphBuilder&, const Config&, absl::string_view, Value)) {
  GraphBuilder encoder, decoder;
  encoder.Output(encoded,
                 encode(encoder, config, kComponent, Input(encoder, inputs, "image", Rate::kStep)));
  decoder.Output("decoded", decode(decoder, config, kComponent,
                                   Input(decoder, inputs, "latents", Rate::kStep)));
  ASSIGN_OR_RETURN(Graph first, std::move(encoder).Build());
  ASSIGN_OR_RETURN(Graph second, std::move(decoder).Build());
  return std::vector<Graph>{std::move(first), std::move(second)};
}

Graphs TextGraphs(absl::string_view text, networks::ClipTextKind kind, const InputShapes& inputs) {
  ASSIGN_OR_RETURN(const auto config, networks::ParseClipTextConfig(text, kConfig, kind));
  GraphBuilder b;
  const Value ids = Input(b, inputs, "input_ids", Rate::kStep, DType::kI64);
  const graph::Shape& shape = b.shape(ids);
  const Value positions =
      b.Input(kPooledPositions, DType::kI64, {shape.rank() > 0 ? shape[0] : 1}, Rate::kStep);
  const auto outputs =
      networks::ClipText(b, config, kComponent, {.input_ids = ids, .pooled_positions = positions});
  for (size_t i = 0; i < outputs.hidden_states.size(); ++i) {
    b.Output(absl::StrCat("hidden_states.", i), outputs.hidden_states[i]);
  }
  b.Output("last_hidden_state", outputs.last_hidden_state);
  b.Output("pooled", outputs.pooled);
  return One(std::move(b));
}

}  // namespace

Graphs BuildNetworkGraphs(absl::string_view class_name, absl::string_view config,
                          const InputShapes& inputs) {
  if (class_name == "UNet2DConditionModel") return UnetGraphs(config, inputs);
  if (class_name == "ControlNetModel" || class_name == "ControlNetUnionModel")
    return ControlNetGraphs(config, inputs);
  if (class_name == "IPAdapter") return ProjectionGraphs(config, inputs);
  if (class_name == "AutoencoderKL") {
    ASSIGN_OR_RETURN(const auto parsed, networks::ParseAutoencoderKlConfig(config, kConfig));
    return EncoderAndDecoder(parsed, inputs, "moments", networks::EncodeAutoencoderKl,
                             networks::DecodeAutoencoderKl);
  }
  if (class_name == "UNetSpatioTemporalConditionModel") return VideoUnetGraphs(config, inputs);
  if (class_name == "CLIPVisionModelWithProjection") return ImageEncoderGraphs(config, inputs);
  if (class_name == "AutoencoderKLTemporalDecoder") {
    ASSIGN_OR_RETURN(const auto parsed, networks::ParseAutoencoderTemporalConfig(config, kConfig));
    return EncoderAndDecoder(parsed, inputs, "moments", networks::EncodeAutoencoderTemporal,
                             networks::DecodeAutoencoderTemporal);
  }
  if (class_name == "AutoencoderTiny") {
    ASSIGN_OR_RETURN(const auto parsed, networks::ParseAutoencoderTinyConfig(config, kConfig));
    return EncoderAndDecoder(parsed, inputs, "encoded", networks::EncodeAutoencoderTiny,
                             networks::DecodeAutoencoderTiny);
  }
  ASSIGN_OR_RETURN(const networks::ClipTextKind kind, networks::ParseClipTextKind(class_name));
  return TextGraphs(config, kind, inputs);
}

}  // namespace latentd::golden
