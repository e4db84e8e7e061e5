#include "core/pipeline/step_graph.h"

#include "absl/strings/str_cat.h"
#include "core/graph/graph_builder.h"
#include "core/pipeline/limits.h"
#include "core/schedulers/schedule.h"

namespace latentd::pipeline {
namespace {

using device::DType;
using graph::GraphBuilder;
using graph::Rate;
using graph::Shape;
using graph::Value;

constexpr int64_t kState = schedulers::kStateRows;
constexpr auto kLine = static_cast<int64_t>(schedulers::kLineElements);

// Adds the step's inputs in the order of the header.
class StepGraph {
 public:
  StepGraph(GraphBuilder& builder, const StepShape& shape, int64_t channels)
      : b_(builder),
        rows_(shape.rows),
        sample_{shape.rows, channels, shape.height, shape.width},
        elements_(channels * shape.height * shape.width),
        state_(Floats("state", {rows_, kState, elements_})),
        step_(Integers("step")),
        table_(Floats("table", {rows_, kMaxEvaluations, kLine})),
        noise_(Floats("noise", {rows_, elements_})),
        guidance_scale_(Floats("guidance_scale", {rows_})),
        guidance_rescale_(Floats("guidance_rescale", {rows_})),
        negative_rows_(Integers("negative_rows")),
        text_rows_(Integers("text_rows")),
        line_(b_.Select(table_, step_)) {}

  Value Timestep() { return b_.Reshape(FromLine(schedulers::kLineTimestep), {rows_}); }

  Value NetworkInput() {
    const Value x = b_.Reshape(b_.Slice(state_, 1, 0, 1), sample_);
    return b_.Mul(x, b_.Reshape(FromLine(schedulers::kLineInputScale), {rows_, 1, 1, 1}));
  }

  // Classifier-free guidance, then the rescaling of section 3.4 of "Common Diffusion Noise
  // Schedules and Sample Steps are Flawed": towards the guided output with the standard deviation
  // of the conditional one. Two outputs without deviation have the ratio 1, and where only the
  // guided one has none it is finite: a share of 0, the default, then leaves what was guided.
  //
  // Gives [rows, elements]. Each row reads its own picture's rows and no other, so that what is not
  // finite stays there.
  Value Guide(Value output) {
    const Value flat = b_.Reshape(output, {rows_, elements_});
    const Value negative = b_.Embedding(flat, negative_rows_);
    const Value text = b_.Embedding(flat, text_rows_);
    const Value scale = b_.Reshape(guidance_scale_, {rows_, 1});
    const Value guided = b_.Add(negative, b_.Mul(b_.Sub(text, negative), scale));
    const Value ratio = b_.Div(Deviation(text), Deviation(guided));
    const Value rescaled = b_.Mul(guided, ratio);
    const Value share = b_.Reshape(guidance_rescale_, {rows_, 1});
    return b_.Add(b_.Mul(rescaled, share), b_.Mul(guided, b_.Sub(b_.Scalar(1), share)));
  }

  void Advance(Value guided) {
    const Value next = b_.SchedulerStep(state_, guided, noise_, line_);
    b_.Output("state", next);
    b_.Output("step", b_.Increment(step_));
    b_.Output("finite", b_.IsFinite(next));
  }

 private:
  Value Floats(const char* name, Shape shape) {
    return b_.Input(name, DType::kF32, std::move(shape), Rate::kStep);
  }
  Value Integers(const char* name) { return b_.Input(name, DType::kI64, {rows_}, Rate::kStep); }
  Value FromLine(size_t at) {
    const auto begin = static_cast<int64_t>(at);
    return b_.Slice(line_, 1, begin, begin + 1);
  }
  // Above 0, by less than any deviation is exact to.
  Value Deviation(Value flat) { return b_.Add(b_.RowStd(flat), b_.Scalar(1e-20f)); }

  GraphBuilder& b_;
  const int64_t rows_;
  const Shape sample_;  // as the network reads latents
  const int64_t elements_;
  Value state_, step_, table_, noise_, guidance_scale_, guidance_rescale_, negative_rows_,
      text_rows_, line_;
};

}  // namespace

std::string HiddenStatesInput(size_t index) {
  return absl::StrCat("encoder_hidden_states.", index);
}

absl::StatusOr<graph::Graph> MakeStepGraph(const models::Unet2dConditionConfig& config,
                                           const StepShape& shape, const ConditioningSizes& sizes) {
  GraphBuilder b;
  StepGraph step(b, shape, config.in_channels);
  const auto request = [&](const std::string& name, Shape dims) {
    return b.Input(name, DType::kF32, std::move(dims), Rate::kRequest);
  };
  models::Unet2dConditionInputs inputs;
  inputs.sample = step.NetworkInput();
  inputs.timestep = step.Timestep();
  std::vector<Value> states;
  for (size_t i = 0; i < sizes.features.size(); ++i) {
    const Shape dims = {shape.rows, sizes.tokens, sizes.features[i]};
    states.push_back(request(HiddenStatesInput(i), dims));
  }
  inputs.encoder_hidden_states = b.Concat(states, 2);
  inputs.text_embeds = request("text_embeds", {shape.rows, sizes.pooled});
  inputs.time_ids = request("time_ids", {shape.rows, sizes.time_ids});
  const Value output = models::Unet2dCondition(b, config, "unet", inputs);
  step.Advance(step.Guide(output));
  return std::move(b).Build();
}

}  // namespace latentd::pipeline
