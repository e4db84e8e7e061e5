#include "core/pipeline/graphs/control_graph.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/graph/graph_builder.h"
#include "core/networks/control_net.h"
#include "core/pipeline/spec/models/components.h"

namespace latentd::pipeline {
namespace {

using device::DType;
using graph::GraphBuilder;
using graph::Rate;
using graph::Shape;
using graph::Value;

constexpr absl::string_view kResidualPrefix = "residual.";

// In the dtype `to`, of a network in f32 (core/passes/precision.h).
Value Narrowed(GraphBuilder& b, Value x, DType to) { return to == DType::kF32 ? x : b.Cast(x, to); }
Value Widened(GraphBuilder& b, Value x) {
  return b.node(x).dtype == DType::kF32 ? x : b.Cast(x, DType::kF32);
}

Shape ChannelsLast(const Shape& image) { return {image[0], image[2], image[3], image[1]}; }

class ControlGraph {
 public:
  ControlGraph(GraphBuilder& builder, const StepShape& shape, DType dtype)
      : b_(builder), rows_(shape.rows), height_(shape.height), width_(shape.width), dtype_(dtype) {}

  Value Latents(int64_t channels) {
    const Value x = Input("latents", {rows_, channels, height_, width_});
    return b_.Mul(x, b_.Reshape(Input("input_scale", {rows_}), {rows_, 1, 1, 1}));
  }
  Value ImageType(int64_t features) { return Input("image_type", {rows_, features}); }
  Value Timestep() { return Input("timestep", {rows_}); }
  Value Hint(int64_t channels) { return Image("hint", {rows_, channels, height_, width_}); }

  void OutputSums(const std::vector<Value>& residuals) {
    const auto count = static_cast<int64_t>(residuals.size());
    const Value scales = Input("scales", {rows_, count});
    for (int64_t i = 0; i < count; ++i) {
      const Value residual = residuals[static_cast<size_t>(i)];
      const std::string name = ResidualName(static_cast<size_t>(i));
      const Value before = Image(name, b_.shape(residual));
      const Value scale = b_.Reshape(b_.Slice(scales, 1, i, i + 1), {rows_, 1, 1, 1});
      const Value sum = b_.Add(before, b_.Mul(residual, scale));
      b_.Output(name, b_.Permute(Narrowed(b_, sum, dtype_), {0, 2, 3, 1}));
    }
  }

 private:
  Value Input(const std::string& name, Shape shape, DType dtype = DType::kF32) {
    return b_.Input(name, dtype, std::move(shape), Rate::kStep);
  }
  // A port with channels last, as the networks have images: [R, c, h, w] is `shape`.
  Value Image(const std::string& name, const Shape& shape) {
    return ImageOfPort(b_, Input(name, ChannelsLast(shape), dtype_));
  }

  GraphBuilder& b_;
  const int64_t rows_, height_, width_;
  const DType dtype_;
};

}  // namespace

std::string ResidualName(size_t index) { return absl::StrCat(kResidualPrefix, index); }

bool IsResidual(absl::string_view port) { return absl::StartsWith(port, kResidualPrefix); }

size_t ResidualIndex(absl::string_view port) {
  size_t index = 0;
  absl::ConsumePrefix(&port, kResidualPrefix);
  return absl::SimpleAtoi(port, &index) ? index : 0;
}

std::vector<RowPort> ResidualPorts(const networks::Unet2dConditionConfig& unet, int64_t height,
                                   int64_t width, DType dtype) {
  std::vector<RowPort> ports;
  for (const Shape& shape : networks::ResidualShapes(unet, height, width)) {
    ports.push_back({.name = ResidualName(ports.size()),
                     .role = PortRole::kResidual,
                     .dtype = dtype,
                     .row = {shape[1], shape[2], shape[0]}});
  }
  return ports;
}

Value ImageOfPort(GraphBuilder& b, Value port) { return b.Permute(Widened(b, port), {0, 3, 1, 2}); }

absl::StatusOr<graph::Graph> MakeHintGraph(const networks::ControlNetConfig& net, int64_t height,
                                           int64_t width, DType dtype) {
  GraphBuilder b;
  const int64_t scale = net.hint_scale();
  const Value pixels =
      b.Input("image", DType::kU8, {1, height * scale, width * scale, 3}, Rate::kStep);
  const Value unit = b.Div(b.Cast(pixels, DType::kF32), b.Scalar(255));
  const Value image = b.Permute(unit, {0, 3, 1, 2});
  Value types;
  if (net.is_union()) {
    types = b.Input("image_types", DType::kF32, {1, net.image_types}, Rate::kStep);
    b.Output("image_type", networks::ImageTypeEmbedding(b, net, kControlNetName, types));
  }
  const Value hint = networks::ControlNetHint(b, net, kControlNetName, image, types);
  b.Output("hint", b.Permute(Narrowed(b, hint, dtype), {0, 2, 3, 1}));
  return std::move(b).Build();
}

absl::StatusOr<graph::Graph> MakeControlGraph(const families::Family& family,
                                              const families::ModelConfigs& configs,
                                              const networks::ControlNetConfig& net,
                                              const StepShape& shape, DType dtype) {
  GraphBuilder b;
  ControlGraph control(b, shape, dtype);
  const Value latents = control.Latents(configs.unet.out_channels), timestep = control.Timestep();
  auto inputs = family.network_inputs(b, configs, latents, timestep, shape.chunks);
  if (net.is_union()) inputs.added_time = control.ImageType(net.unet.time_embedding_dim);
  const Value hint = control.Hint(net.unet.blocks.front().channels);
  control.OutputSums(networks::ControlNet(b, net, kControlNetName, inputs, hint));
  return std::move(b).Build();
}

}  // namespace latentd::pipeline
