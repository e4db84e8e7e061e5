#include "core/networks/unet_spatio_temporal.h"

#include <vector>

#include "core/networks/layers/spatio_temporal_resnet.h"
#include "core/networks/layers/transformer_spatio_temporal.h"

namespace latentd::networks {
namespace {

using Config = UnetSpatioTemporalConfig;

// Fixed in diffusers: the epsilon of the residual blocks' norms by the type of the block.
constexpr double kEpsilonWithTransformers = 1e-6;
constexpr double kEpsilonOfPlainDown = 1e-5;
constexpr double kEpsilonOfMiddle = 1e-5;
constexpr double kEpsilonOfUp = 1e-6;
constexpr double kEpsilonOfLast = 1e-5;

// All blocks of one evaluation, written one after the other.
class ClipUnet {
 public:
  ClipUnet(const Scope& unet, const Config& config, const UnetSpatioTemporalInputs& inputs)
      : b_(unet.builder()),
        unet_(unet),
        config_(config),
        frames_(Dimension(b_, inputs.sample, 1)),
        token_(inputs.encoder_hidden_states),
        time_(Time(inputs)) {}

  Value Run(Value sample) {
    const Shape shape = b_.shape(sample);
    x_ = b_.Reshape(sample, {shape[0] * shape[1], shape[2], shape[3], shape[4]});
    x_ = Convolution(unet_.Child("conv_in"), x_, {.out_channels = config_.blocks.front().channels});
    skips_ = {x_};
    for (size_t i = 0; i < config_.blocks.size(); ++i) Down(i);
    Middle();
    for (size_t i = 0; i < config_.blocks.size(); ++i) Up(i);
    x_ = b_.Silu(GroupNorm(unet_.Child("conv_norm_out"), x_, kClipGroups, kEpsilonOfLast));
    x_ = Convolution(unet_.Child("conv_out"), x_, {.out_channels = config_.out_channels});
    return b_.Reshape(x_, {shape[0], shape[1], config_.out_channels, shape[3], shape[4]});
  }

 private:
  Value ClipSinusoids(Value t, int64_t dim) {
    return b_.TimestepEmbedding(t, {.dim = dim, .flip_sin_to_cos = true});
  }

  // The numbers are embedded column by column, since flattening them would mix clips into dimension
  // 0.
  Value AddedNumbers(Value time_ids) {
    const int64_t clips = Dimension(b_, time_ids, 0);
    std::vector<Value> parts;
    for (int64_t i = 0; i < config_.time_ids(); ++i) {
      const Value column = b_.Reshape(b_.Slice(time_ids, 1, i, i + 1), {clips});
      parts.push_back(ClipSinusoids(column, config_.addition_time_embed_dim));
    }
    return TimestepMlp(unet_.Child("add_embedding"), b_.Concat(parts, 1),
                       config_.time_embedding_dim(), Activation::kSilu);
  }

  // Every residual block activates the time embedding first; it is done here once.
  ClipTime Time(const UnetSpatioTemporalInputs& inputs) {
    const Value sinusoids = ClipSinusoids(inputs.timestep, config_.blocks.front().channels);
    const Value time = TimestepMlp(unet_.Child("time_embedding"), sinusoids,
                                   config_.time_embedding_dim(), Activation::kSilu);
    const Value activated = b_.Silu(b_.Add(time, AddedNumbers(inputs.time_ids)));
    return {.of_clips = activated, .of_frames = RepeatOverFrames(b_, activated, frames_)};
  }

  void Resnet(const Scope& scope, int64_t channels, double epsilon) {
    x_ = SpatioTemporalResnet(scope, x_, time_,
                              {.out_channels = channels,
                               .frames = frames_,
                               .frame_epsilon = epsilon,
                               .clip_epsilon = epsilon});
  }

  void Transformer(const Scope& scope, const Config::Block& block) {
    x_ = TransformerSpatioTemporal(
        scope, x_, token_,
        {.heads = block.heads, .layers = block.transformer_layers, .frames = frames_});
  }

  void Down(size_t index) {
    const Scope scope = unet_.Child("down_blocks", static_cast<int64_t>(index));
    const Config::Block& block = config_.blocks[index];
    const double epsilon = block.attends_down ? kEpsilonWithTransformers : kEpsilonOfPlainDown;
    for (int64_t i = 0; i < block.layers; ++i) {
      Resnet(scope.Child("resnets", i), block.channels, epsilon);
      if (block.attends_down) Transformer(scope.Child("attentions", i), block);
      skips_.push_back(x_);
    }
    if (index + 1 == config_.blocks.size()) return;
    x_ = Downsample(scope.Child("downsamplers.0"), x_, /*padding=*/1);
    skips_.push_back(x_);
  }

  void Middle() {
    const Scope scope = unet_.Child("mid_block");
    const Config::Block& block = config_.blocks.back();
    Resnet(scope.Child("resnets.0"), block.channels, kEpsilonOfMiddle);
    Transformer(scope.Child("attentions.0"), block);
    Resnet(scope.Child("resnets.1"), block.channels, kEpsilonOfMiddle);
  }

  void Up(size_t index) {
    const Scope scope = unet_.Child("up_blocks", static_cast<int64_t>(index));
    const Config::Block& block = config_.blocks[config_.blocks.size() - 1 - index];
    for (int64_t i = 0; i < block.layers + 1; ++i) {
      x_ = b_.Concat({x_, skips_.back()}, 1);
      skips_.pop_back();
      Resnet(scope.Child("resnets", i), block.channels, kEpsilonOfUp);
      if (block.attends_up) Transformer(scope.Child("attentions", i), block);
    }
    if (skips_.empty()) return;
    x_ = Upsample(scope.Child("upsamplers.0"), x_, Dimension(b_, skips_.back(), 2),
                  Dimension(b_, skips_.back(), 3));
  }

  GraphBuilder& b_;
  const Scope unet_;
  const Config& config_;
  const int64_t frames_;
  const Value token_;
  const ClipTime time_;
  Value x_;
  std::vector<Value> skips_;
};

absl::Status CheckClipShape(const GraphBuilder& b, absl::string_view name, Value value,
                            const Shape& wanted) {
  if (value.id >= 0 && b.shape(value) == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the UNet's input ", name, value.id < 0 ? " is missing" : " has shape ",
                   value.id < 0 ? "" : b.shape(value).ToString(), ", but ", wanted.ToString(),
                   " is what its config asks for"));
}

// Clips, frames, height and width are taken from the sample.
absl::Status CheckClipInputs(const GraphBuilder& b, const Config& config,
                             const UnetSpatioTemporalInputs& inputs) {
  const auto size = [&](int dimension) { return Dimension(b, inputs.sample, dimension); };
  absl::Status status;
  status.Update(CheckClipShape(b, "sample", inputs.sample,
                               {size(0), size(1), config.in_channels, size(3), size(4)}));
  status.Update(CheckClipShape(b, "timestep", inputs.timestep, {size(0)}));
  status.Update(CheckClipShape(b, "encoder_hidden_states", inputs.encoder_hidden_states,
                               {size(0), 1, config.cross_attention_dim}));
  status.Update(CheckClipShape(b, "time_ids", inputs.time_ids, {size(0), config.time_ids()}));
  return status;
}

}  // namespace

Value UnetSpatioTemporal(GraphBuilder& builder, const UnetSpatioTemporalConfig& config,
                         absl::string_view component, const UnetSpatioTemporalInputs& inputs) {
  if (absl::Status status = CheckClipInputs(builder, config, inputs); !status.ok()) {
    builder.Fail(std::move(status));
    return inputs.sample;
  }
  return ClipUnet(Scope(builder, component), config, inputs).Run(inputs.sample);
}

}  // namespace latentd::networks
