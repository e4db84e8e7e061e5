#include "core/pipeline/graphs/step_graph.h"

#include <iterator>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "core/graph/graph_builder.h"
#include "core/graph/low_rank_paths.h"
#include "core/networks/unet_2d_condition.h"
#include "core/pipeline/graphs/control_graph.h"
#include "core/pipeline/graphs/image_prompt_graph.h"
#include "core/pipeline/graphs/video_graphs.h"
#include "core/pipeline/spec/models/components.h"
#include "core/pipeline/spec/request/limits.h"
#include "core/schedulers/schedule.h"

namespace latentd::pipeline {
namespace {

using device::DType;
using graph::GraphBuilder;
using graph::Rate;
using graph::Shape;
using graph::Value;

constexpr char kState[] = "state", kStep[] = "step", kTable[] = "table", kNoise[] = "noise";
constexpr char kNegativeRows[] = "negative_rows", kTextRows[] = "text_rows", kFinite[] = "finite";
constexpr char kContrast[] = "contrast";
constexpr char kGuidanceScale[] = "guidance_scale", kGuidanceRescale[] = "guidance_rescale";

// Inputs of a network beside the request rate.
bool IsOfNetwork(const RowPort& port) {
  return port.role == PortRole::kState || port.role == PortRole::kStep ||
         port.role == PortRole::kTable;
}

int64_t ElementsOf(const families::ModelConfigs& configs, const StepShape& shape) {
  return configs.unet.out_channels * shape.height * shape.width;
}

class StepGraph {
 public:
  // `ports` are those that the graph has, and may have outputs.
  StepGraph(GraphBuilder& builder, const StepShape& shape, int64_t channels,
            const std::vector<RowPort>& ports, std::vector<RowPort> residuals = {},
            std::vector<RowPort> image_prompts = {})
      : b_(builder),
        rows_(shape.rows),
        sample_{shape.rows, channels, shape.height, shape.width},
        elements_(channels * shape.height * shape.width),
        residuals_(std::move(residuals)),
        image_prompts_(std::move(image_prompts)),
        inputs_(AddInputs(ports)),
        line_(b_.Select(Input(kTable), Input(kStep))) {}

  // In f32, as the networks are built (core/passes/precision.h).
  std::vector<Value> Residuals() {
    std::vector<Value> values;
    for (const RowPort& port : residuals_) values.push_back(ImageOfPort(b_, Input(port.name)));
    return values;
  }
  std::vector<Value> ImagePrompts() {
    std::vector<Value> values;
    for (const RowPort& port : image_prompts_) values.push_back(Widened(port));
    return values;
  }
  // REQUIRES: it is an input.
  Value Prediction(const RowPort& port) { return Widened(port); }

  Value Timestep() { return b_.Reshape(FromLine(schedulers::kLineTimestep), {rows_}); }

  Value NetworkInput() {
    const Value x = b_.Reshape(b_.Slice(Input(kState), 1, 0, 1), sample_);
    const Value scaled =
        b_.Mul(x, b_.Reshape(FromLine(schedulers::kLineInputScale), {rows_, 1, 1, 1}));
    if (!inputs_.contains(kMaskPort)) return scaled;
    const Value mask = b_.Reshape(Input(kMaskPort), {rows_, 1, sample_[2], sample_[3]});
    return b_.Concat({scaled, mask, b_.Reshape(Input(kMaskedLatentsPort), sample_)}, 1);
  }

  // Classifier-free guidance, then the rescaling of section 3.4 of "Common Diffusion Noise
  // Schedules and Sample Steps are Flawed": towards the guided output with the standard deviation
  // of the conditional one. Two outputs without deviation have the ratio 1, and where only the
  // guided one has none it is finite: a share of 0, the default, then leaves what was guided.
  //
  // From and to [rows, elements]. Each row reads its own picture's rows and no other, so that what
  // is not finite stays there.
  Value Guide(Value flat) {
    const Value negative = b_.Embedding(flat, Input(kNegativeRows));
    const Value text = b_.Embedding(flat, Input(kTextRows));
    Compare(negative, text);
    const Value scale = b_.Reshape(Input(kGuidanceScale), {rows_, 1});
    const Value guided = b_.Add(negative, b_.Mul(b_.Sub(text, negative), scale));
    const Value ratio = b_.Div(Deviation(text), Deviation(guided));
    const Value rescaled = b_.Mul(guided, ratio);
    const Value share = b_.Reshape(Input(kGuidanceRescale), {rows_, 1});
    return b_.Add(b_.Mul(rescaled, share), b_.Mul(guided, b_.Sub(b_.Scalar(1), share)));
  }

  Value Flat(Value output) { return b_.Reshape(output, {rows_, elements_}); }

  void Advance(Value guided) {
    const Value next = b_.SchedulerStep(Input(kState), guided, Input(kNoise), line_);
    b_.Output(kState, next);
    b_.Output(kStep, b_.Increment(Input(kStep)));
    b_.Output(kFinite, b_.IsFinite(next));
  }

 private:
  absl::flat_hash_map<std::string, Value> AddInputs(std::vector<RowPort> ports) {
    absl::flat_hash_map<std::string, Value> inputs;
    absl::c_copy(residuals_, std::back_inserter(ports));
    absl::c_copy(image_prompts_, std::back_inserter(ports));
    for (const RowPort& port : ports) {
      if (port.role == PortRole::kFinite || port.role == PortRole::kContrast) continue;
      inputs[port.name] = b_.Input(port.name, port.dtype, port.WithRows(rows_), Rate::kStep);
    }
    return inputs;
  }
  Value Input(absl::string_view name) const { return inputs_.find(name)->second; }
  Value Widened(const RowPort& port) {
    const Value value = Input(port.name);
    return port.dtype == DType::kF32 ? value : b_.Cast(value, DType::kF32);
  }
  Value FromLine(size_t at) {
    const auto begin = static_cast<int64_t>(at);
    return b_.Slice(line_, 1, begin, begin + 1);
  }
  // Takes a difference of its own: what the graph has of guidance is as it would be without this.
  void Compare(Value negative, Value text) {
    b_.Output(kContrast, b_.Reshape(b_.RowStd(b_.Sub(negative, text)), {rows_}));
  }
  // Above 0, by less than any deviation is exact to.
  Value Deviation(Value flat) { return b_.Add(b_.RowStd(flat), b_.Scalar(1e-20f)); }

  GraphBuilder& b_;
  const int64_t rows_;
  const Shape sample_;  // as the network reads latents
  const int64_t elements_;
  const std::vector<RowPort> residuals_;  // empty: the step is not controlled
  const std::vector<RowPort> image_prompts_;
  const absl::flat_hash_map<std::string, Value> inputs_;
  const Value line_;
};

// Channels last, in the dtype that the network computes in; what follows reads it from there.
Value PassDeep(GraphBuilder& b, Value deep, DType dtype) {
  const Value last = b.Permute(deep, {0, 2, 3, 1});
  const Value given = dtype == DType::kF32 ? last : b.Cast(last, dtype);
  b.Output(kDeepPort, given);
  return ImageOfPort(b, given);
}

// The step's prediction. `brought`: the dtype of deep features.
Value PredictionOf(GraphBuilder& b, const families::Family& family,
                   const families::ModelConfigs& configs, StepGraph& step, const StepShape& shape,
                   DType brought = DType::kF32) {
  const Value latents = step.NetworkInput(), timestep = step.Timestep();
  const std::vector<Value> residuals = step.Residuals();
  const bool gives_deep = shape.deep != DeepFeatures::kNone;
  if (residuals.empty() && shape.image_tokens.empty() && !gives_deep) {
    return family.predict(b, configs, latents, timestep, shape.chunks);
  }
  auto inputs = family.network_inputs(b, configs, latents, timestep, shape.chunks);
  inputs.residuals = residuals;
  if (gives_deep) inputs.pass_deep = [&](Value deep) { return PassDeep(b, deep, brought); };
  inputs.images = UnpackImagePrompts(b, configs.unet, shape.image_tokens, step.ImagePrompts());
  return networks::Unet2dCondition(b, configs.unet, kUnetName, inputs);
}

}  // namespace

std::vector<RowPort> StepPorts(int64_t elements) {
  using Role = PortRole;
  constexpr auto kLine = static_cast<int64_t>(schedulers::kLineElements);
  constexpr auto kI64 = DType::kI64;
  return {{.name = kState, .role = Role::kState, .row = {schedulers::kStateRows, elements}},
          {.name = kStep, .role = Role::kStep, .dtype = kI64},
          {.name = kTable, .role = Role::kTable, .row = {kMaxEvaluations, kLine}},
          {.name = kNoise, .role = Role::kNoise, .row = {elements}},
          {.name = kGuidanceScale, .rate = PortRate::kStep},
          {.name = kGuidanceRescale, .rate = PortRate::kStep},
          {.name = kNegativeRows, .role = Role::kMember, .member = 0, .dtype = kI64},
          {.name = kTextRows, .role = Role::kMember, .member = 1, .dtype = kI64},
          {.name = kFinite, .role = Role::kFinite, .dtype = DType::kU8},
          {.name = kContrast, .role = Role::kContrast}};
}

// Inputs of the step's rate, though they do not change: they lie apart from prompts then, whose
// memory is the same for all sizes (lane_memory.cc).
std::vector<RowPort> InpaintingPorts(int64_t channels, int64_t elements) {
  return {{.name = kMaskPort, .rate = PortRate::kStep, .row = {elements}},
          {.name = kMaskedLatentsPort, .rate = PortRate::kStep, .row = {channels * elements}}};
}

std::vector<RowPort> PathPorts(int64_t scales) {
  return {{.name = graph::kPathsInput, .role = PortRole::kPool},
          {.name = graph::kPathSlotInput, .dtype = DType::kI64},
          {.name = graph::kPathScalesInput, .row = {scales}}};
}

RowPort DeepPort(const networks::Unet2dConditionConfig& unet, int64_t height, int64_t width,
                 DType dtype) {
  const Shape shape = networks::DeepShape(unet, height, width).value_or(Shape{0, 0, 0});
  return {.name = kDeepPort,
          .role = PortRole::kDeep,
          .dtype = dtype,
          .row = {shape[1], shape[2], shape[0]}};
}

std::vector<RowPort> StepPortsOf(const backends::ExecutableInfo& step) {
  std::vector<RowPort> known = StepPorts(/*elements=*/0);
  absl::c_move(InpaintingPorts(/*channels=*/0, /*elements=*/0), std::back_inserter(known));
  absl::c_move(PathPorts(/*scales=*/0), std::back_inserter(known));
  absl::c_move(VideoPorts(/*elements=*/0, /*frames=*/1), std::back_inserter(known));
  std::vector<RowPort> ports;
  for (const auto* all : {&step.inputs, &step.outputs}) {
    for (const backends::Port& port : *all) {
      if (port.updates >= 0) continue;
      const auto found =
          absl::c_find_if(known, [&](const RowPort& row) { return row.name == port.name; });
      RowPort& row = ports.emplace_back(found == known.end() ? RowPort{.name = port.name} : *found);
      if (IsResidual(port.name)) row.role = PortRole::kResidual;
      if (port.name == kDeepPort) row.role = PortRole::kDeep;
      row.dtype = port.dtype;
      row.row = Shape({port.shape.dims().begin() + 1, port.shape.dims().end()});
    }
  }
  return ports;
}

std::vector<RowValue> StepValues(const backends::NamedBuffers& request, double guidance_scale,
                                 double guidance_rescale) {
  std::vector<RowValue> values = {{kGuidanceScale, static_cast<float>(guidance_scale)},
                                  {kGuidanceRescale, static_cast<float>(guidance_rescale)}};
  for (const auto& [name, rows] : request) values.push_back({name, rows});
  return values;
}

absl::StatusOr<graph::Graph> MakeStepGraph(const families::Family& family,
                                           const families::ModelConfigs& configs,
                                           const StepShape& shape, DType brought, bool controlled) {
  GraphBuilder b;
  std::vector<RowPort> residuals;
  if (controlled) residuals = ResidualPorts(configs.unet, shape.height, shape.width, brought);
  const int64_t elements = ElementsOf(configs, shape);
  std::vector<RowPort> ports = StepPorts(elements);
  if (configs.inpaints()) {
    const int64_t channels = configs.unet.out_channels;
    absl::c_move(InpaintingPorts(channels, elements / channels), std::back_inserter(ports));
  }
  StepGraph step(b, shape, configs.unet.out_channels, ports, std::move(residuals),
                 ImagePromptPorts(configs.unet, shape.image_tokens, brought));
  step.Advance(step.Guide(step.Flat(PredictionOf(b, family, configs, step, shape, brought))));
  return std::move(b).Build();
}

absl::StatusOr<graph::Graph> MakeNetworkGraph(const families::Family& family,
                                              const families::ModelConfigs& configs,
                                              const StepShape& shape, DType predicted) {
  GraphBuilder b;
  std::vector<RowPort> ports = StepPorts(ElementsOf(configs, shape));
  std::erase_if(ports, [](const RowPort& port) { return !IsOfNetwork(port); });
  StepGraph step(b, shape, configs.unet.out_channels, ports);
  const Value flat = step.Flat(PredictionOf(b, family, configs, step, shape));
  b.Output(kPredictionPort, predicted == DType::kF32 ? flat : b.Cast(flat, predicted));
  return std::move(b).Build();
}

absl::StatusOr<graph::Graph> MakeAdvanceGraph(const families::ModelConfigs& configs,
                                              const StepShape& shape, DType predicted) {
  GraphBuilder b;
  const int64_t elements = ElementsOf(configs, shape);
  const RowPort prediction = {.name = kPredictionPort, .dtype = predicted, .row = {elements}};
  std::vector<RowPort> ports = StepPorts(elements);
  ports.push_back(prediction);
  StepGraph step(b, shape, configs.unet.out_channels, ports);
  step.Advance(step.Guide(step.Prediction(prediction)));
  return std::move(b).Build();
}

}  // namespace latentd::pipeline
