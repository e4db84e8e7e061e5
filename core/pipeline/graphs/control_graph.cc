#include "core/pipeline/graphs/control_graph.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/graph/graph_builder.h"
#include "core/networks/control_net.h"
#include "core/pipeline/spec/components.h"

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

class ControlGraph {
 public:
  ControlGraph(GraphBuilder& builder, const StepShape& shape, DType dtype)
      : b_(builder), rows_(shape.rows), height_(shape.height), width_(shape.width), dtype_(dtype) {}

  Value Latents(int64_t channels) {
    const Value x = Input("latents", {rows_, channels, height_, width_});
    return b_.Mul(x, b_.Reshape(Input("input_scale", {rows_}), {rows_, 1, 1, 1}));
  }
  Value Timestep() { return Input("timestep", {rows_}); }
  Value Hint(int64_t channels) {
    return Widened(b_, Input("hint", {rows_, channels, height_, width_}, dtype_));
  }

  void OutputSums(const std::vector<Value>& residuals) {
    const auto count = static_cast<int64_t>(residuals.size());
    const Value scales = Input("scales", {rows_, count});
    for (int64_t i = 0; i < count; ++i) {
      const Value residual = residuals[static_cast<size_t>(i)];
      const std::string name = ResidualName(static_cast<size_t>(i));
      const Value before = Widened(b_, Input(name, b_.shape(residual), dtype_));
      const Value scale = b_.Reshape(b_.Slice(scales, 1, i, i + 1), {rows_, 1, 1, 1});
      b_.Output(name, Narrowed(b_, b_.Add(before, b_.Mul(residual, scale)), dtype_));
    }
  }

 private:
  Value Input(const std::string& name, Shape shape, DType dtype = DType::kF32) {
    return b_.Input(name, dtype, std::move(shape), Rate::kStep);
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
  for (Shape& shape : networks::ResidualShapes(unet, height, width)) {
    ports.push_back({.name = ResidualName(ports.size()),
                     .role = PortRole::kResidual,
                     .dtype = dtype,
                     .row = std::move(shape)});
  }
  return ports;
}

absl::StatusOr<graph::Graph> MakeHintGraph(const networks::ControlNetConfig& net, int64_t height,
                                           int64_t width, DType dtype) {
  GraphBuilder b;
  const int64_t scale = net.hint_scale();
  const Value pixels =
      b.Input("image", DType::kU8, {1, height * scale, width * scale, 3}, Rate::kStep);
  const Value unit = b.Div(b.Cast(pixels, DType::kF32), b.Scalar(255));
  const Value image = b.Permute(unit, {0, 3, 1, 2});
  b.Output("hint", Narrowed(b, networks::ControlNetHint(b, net, kControlNetName, image), dtype));
  return std::move(b).Build();
}

absl::StatusOr<graph::Graph> MakeControlGraph(const families::Family& family,
                                              const families::ModelConfigs& configs,
                                              const networks::ControlNetConfig& net,
                                              const StepShape& shape, DType dtype) {
  GraphBuilder b;
  ControlGraph control(b, shape, dtype);
  const Value latents = control.Latents(configs.unet.out_channels), timestep = control.Timestep();
  const auto inputs = family.network_inputs(b, configs, latents, timestep, shape.chunks);
  const Value hint = control.Hint(net.unet.blocks.front().channels);
  control.OutputSums(networks::ControlNet(b, net, kControlNetName, inputs, hint));
  return std::move(b).Build();
}

}  // namespace latentd::pipeline
