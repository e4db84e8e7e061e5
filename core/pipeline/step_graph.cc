#include "core/pipeline/step_graph.h"

#include "core/schedulers/schedule.h"

namespace latentd::pipeline {
namespace {

using device::DType;
using graph::GraphBuilder;
using graph::Rate;
using graph::Shape;
using graph::Value;

constexpr int64_t kState = schedulers::kStateRows;
constexpr int64_t kCombined = schedulers::kCombined;

// Adds the step's inputs in the order of the header.
class StepGraph {
 public:
  StepGraph(GraphBuilder& builder, const StepShape& shape, int64_t channels)
      : b_(builder),
        rows_(shape.rows),
        channels_(channels),
        height_(shape.height),
        width_(shape.width),
        state_(Step("state", {rows_, kState, channels_, height_, width_})),
        noise_(Step("noise", {rows_, channels_, height_, width_})),
        input_scale_(Step("input_scale", {rows_})),
        timestep_(Step("timestep", {rows_})),
        matrix_(Step("matrix", {rows_, kState, kCombined})),
        guidance_(Step("guidance", {rows_, rows_})),
        text_rows_(Step("text_rows", {rows_, rows_})),
        guidance_rescale_(Step("guidance_rescale", {rows_})) {}

  Value timestep() const { return timestep_; }

  Value NetworkInput() {
    const Value x = b_.Reshape(b_.Slice(state_, 1, 0, 1), {rows_, channels_, height_, width_});
    return b_.Mul(x, b_.Reshape(input_scale_, {rows_, 1, 1, 1}));
  }

  // Classifier-free guidance, then the rescaling of section 3.4 of "Common Diffusion Noise
  // Schedules and Sample Steps are Flawed": towards the guided output with the standard deviation
  // of the conditional one. Two outputs without deviation have the ratio 1, and where only the
  // guided one has none it is finite: a share of 0, the default, then leaves what was guided.
  Value Guide(Value output) {
    const Value flat = b_.Reshape(output, {rows_, Pixels()});
    const Value guided = b_.Matmul(guidance_, flat);
    const Value text = b_.Matmul(text_rows_, flat);
    const Value ratio = b_.Div(Deviation(text), Deviation(guided));
    const Value rescaled = b_.Mul(guided, ratio);
    const Value share = b_.Reshape(guidance_rescale_, {rows_, 1});
    return b_.Add(b_.Mul(rescaled, share), b_.Mul(guided, b_.Sub(b_.Scalar(1), share)));
  }

  // S' = M [S, output, noise].
  Value Advance(Value guided) {
    const Value combined = b_.Concat(
        {b_.Reshape(state_, {rows_, kState, Pixels()}), b_.Reshape(guided, {rows_, 1, Pixels()}),
         b_.Reshape(noise_, {rows_, 1, Pixels()})},
        1);
    return b_.Reshape(b_.Matmul(matrix_, combined), {rows_, kState, channels_, height_, width_});
  }

 private:
  Value Step(const char* name, Shape shape) {
    return b_.Input(name, DType::kF32, std::move(shape), Rate::kStep);
  }
  // Above 0, by less than any deviation is exact to.
  Value Deviation(Value flat) { return b_.Add(b_.RowStd(flat), b_.Scalar(1e-20f)); }
  int64_t Pixels() const { return channels_ * height_ * width_; }

  GraphBuilder& b_;
  int64_t rows_, channels_, height_, width_;
  Value state_, noise_, input_scale_, timestep_, matrix_, guidance_, text_rows_, guidance_rescale_;
};

}  // namespace

absl::StatusOr<graph::Graph> MakeStepGraph(const models::Unet2dConditionConfig& config,
                                           const StepShape& shape, const ConditioningSizes& sizes,
                                           GraphBuilder::StoredDType stored_dtype) {
  GraphBuilder b(std::move(stored_dtype));
  StepGraph step(b, shape, config.in_channels);
  const auto request = [&](const char* name, Shape dims) {
    return b.Input(name, DType::kF32, std::move(dims), Rate::kRequest);
  };
  models::Unet2dConditionInputs inputs;
  inputs.sample = step.NetworkInput();
  inputs.timestep = step.timestep();
  inputs.encoder_hidden_states =
      request("encoder_hidden_states", {shape.rows, sizes.tokens, sizes.features});
  inputs.text_embeds = request("text_embeds", {shape.rows, sizes.pooled});
  inputs.time_ids = request("time_ids", {shape.rows, sizes.time_ids});
  const Value output = models::Unet2dCondition(b, config, "unet", inputs);
  b.Output("state", step.Advance(step.Guide(output)));
  return std::move(b).Build();
}

int64_t StepElements(const StepShape& shape, int64_t channels) {
  const int64_t latents = channels * shape.height * shape.width;
  const int64_t row = (2 * kState + 1) * latents + kState * kCombined + 2 * shape.rows + 3;
  return shape.rows * row;
}

}  // namespace latentd::pipeline
