#include "core/families/svd/video_graphs.h"

#include <utility>
#include <vector>

#include "core/families/family/video_family.h"
#include "core/graph/graph_builder.h"
#include "core/networks/clip_vision.h"
#include "core/networks/unet_spatio_temporal.h"
#include "core/pipeline/spec/request/limits.h"
#include "core/schedulers/schedule.h"

namespace latentd::families::svd {
namespace {

using device::DType;
using graph::GraphBuilder;
using graph::Rate;
using graph::Shape;
using graph::Value;

Value F32Input(GraphBuilder& b, const char* name, Shape shape, Rate rate = Rate::kStep) {
  return b.Input(name, DType::kF32, std::move(shape), rate);
}

// As core/pipeline/graphs/step_graph.cc has it for images, with frames.
class VideoStep {
 public:
  VideoStep(GraphBuilder& builder, const VideoConfigs& configs, const VideoShape& shape)
      : b_(builder),
        configs_(configs),
        shape_(shape),
        frame_(configs.vae.latent_channels * shape.height * shape.width),
        elements_(shape.frames * frame_),
        state_(F32Input(b_, "state", {shape.rows, schedulers::kStateRows, elements_})),
        step_(b_.Input("step", DType::kI64, {shape.rows}, Rate::kStep)),
        line_(b_.Select(F32Input(b_, "table",
                                 {shape.rows, pipeline::kMaxEvaluations,
                                  static_cast<int64_t>(schedulers::kLineElements)}),
                        step_)) {}

  void Build() {
    const Value next = b_.SchedulerStep(state_, Guide(Predict()),
                                        F32Input(b_, "noise", {shape_.rows, elements_}), line_);
    b_.Output("state", next);
    b_.Output("step", b_.Increment(step_));
    b_.Output("finite", b_.IsFinite(next));
  }

 private:
  Value FromLine(size_t at) {
    const auto begin = static_cast<int64_t>(at);
    return b_.Slice(line_, 1, begin, begin + 1);
  }

  Shape Frames(int64_t frames) const {
    return {shape_.rows, frames, configs_.vae.latent_channels, shape_.height, shape_.width};
  }

  // The latents, scaled, and beside each frame of them the image's, which are not.
  Value Sample() {
    const Value x = b_.Reshape(b_.Slice(state_, 1, 0, 1), {shape_.rows, elements_});
    const Value scaled = b_.Mul(x, FromLine(schedulers::kLineInputScale));
    const Value image = F32Input(b_, "image_latents", {shape_.rows, frame_});
    const std::vector<Value> all(static_cast<size_t>(shape_.frames),
                                 b_.Reshape(image, Frames(/*frames=*/1)));
    return b_.Concat({b_.Reshape(scaled, Frames(shape_.frames)), b_.Concat(all, 1)}, 2);
  }

  Value Predict() {
    const int64_t features = configs_.unet.cross_attention_dim;
    const Value embeds = F32Input(b_, "image_embeds", {shape_.rows, features}, Rate::kRequest);
    return networks::UnetSpatioTemporal(
        b_, configs_.unet, kUnet,
        {.sample = Sample(),
         .timestep = b_.Reshape(FromLine(schedulers::kLineTimestep), {shape_.rows}),
         .encoder_hidden_states = b_.Reshape(embeds, {shape_.rows, 1, features}),
         .time_ids = F32Input(b_, "time_ids", {shape_.rows, kTimeIds}, Rate::kRequest)});
  }

  // Each row reads its own video's rows and no other.
  Value Guide(Value output) {
    const Shape by_frame = {shape_.rows, shape_.frames, frame_};
    const Value flat = b_.Reshape(output, {shape_.rows, elements_});
    const auto rows_of = [&](const char* name) {
      const Value rows = b_.Input(name, DType::kI64, {shape_.rows}, Rate::kStep);
      return b_.Reshape(b_.Embedding(flat, rows), by_frame);
    };
    const Value negative = rows_of("negative_rows"), image = rows_of("text_rows");
    const Value scale = b_.Reshape(F32Input(b_, "guidance_scale", {shape_.rows, shape_.frames}),
                                   {shape_.rows, shape_.frames, 1});
    const Value guided = b_.Add(negative, b_.Mul(b_.Sub(image, negative), scale));
    return b_.Reshape(guided, {shape_.rows, elements_});
  }

  GraphBuilder& b_;
  const VideoConfigs& configs_;
  const VideoShape shape_;
  const int64_t frame_, elements_;  // elements of a frame, and of all
  const Value state_, step_, line_;
};

Value UnscaledLatents(GraphBuilder& b, const VideoConfigs& configs, const VideoShape& chunk) {
  const Value latents = F32Input(
      b, "latents", {chunk.frames, configs.vae.latent_channels, chunk.height, chunk.width});
  return b.Mul(latents, b.Scalar(static_cast<float>(1 / configs.vae.scaling_factor)));
}

void GiveFrames(GraphBuilder& b, Value frames) {
  b.Output("pixels", b.ToPixels(b.Permute(frames, {0, 2, 3, 1})));
  b.Output("finite", b.IsFinite(frames));
}

Value InF32(GraphBuilder& b, Value input) {
  return b.node(input).dtype == DType::kF32 ? input : b.Cast(input, DType::kF32);
}

}  // namespace

absl::StatusOr<graph::Graph> MakeImageEncoderGraph(const VideoConfigs& configs) {
  GraphBuilder b;
  const Value pixels = F32Input(b, "pixel_values", {1, 3, kEncodedSide, kEncodedSide});
  const Value embeds = networks::ClipVision(b, configs.image_encoder, kImageEncoder, pixels);
  b.Output("image_embeds", embeds);
  b.Output("finite", b.IsFinite(embeds));
  return std::move(b).Build();
}

absl::StatusOr<graph::Graph> MakeImageLatentsGraph(const VideoConfigs& configs, int64_t height,
                                                   int64_t width) {
  GraphBuilder b;
  const Value bytes = b.Input("image", DType::kU8, {1, height, width, 3}, Rate::kStep);
  const Value unit = b.Div(b.Cast(bytes, DType::kF32), b.Scalar(255));
  const Value image = b.Permute(b.Sub(b.Mul(unit, b.Scalar(2)), b.Scalar(1)), {0, 3, 1, 2});
  const Value strength = b.Reshape(F32Input(b, "noise_aug_strength", {1}), {1, 1, 1, 1});
  const Value noise = F32Input(b, "noise", {1, 3, height, width});
  const Value moments = networks::EncodeAutoencoderTemporal(b, configs.vae, kVae,
                                                            b.Add(image, b.Mul(strength, noise)));
  const Value mean = b.Slice(moments, 1, 0, configs.vae.latent_channels);
  b.Output("image_latents", b.Reshape(mean, {1, b.shape(mean).elements()}));
  b.Output("finite", b.IsFinite(mean));
  return std::move(b).Build();
}

DType ImageLatentsDType(const VideoConfigs& configs, DType dtype) {
  return dtype == DType::kF16 && configs.vae.force_upcast ? DType::kF32 : dtype;
}

absl::StatusOr<graph::Graph> MakeVideoStepGraph(const VideoConfigs& configs,
                                                const VideoShape& shape) {
  GraphBuilder b;
  VideoStep(b, configs, shape).Build();
  return std::move(b).Build();
}

absl::StatusOr<graph::Graph> MakeFramesGraph(const VideoConfigs& configs, const VideoShape& chunk) {
  GraphBuilder b;
  const Value latents = UnscaledLatents(b, configs, chunk);
  GiveFrames(b, networks::DecodeAutoencoderTemporal(b, configs.vae, kVae, latents));
  return std::move(b).Build();
}

absl::StatusOr<graph::Graph> MakeFramesPartGraph(const VideoConfigs& configs,
                                                 const VideoShape& chunk, int part, DType dtype) {
  GraphBuilder b;
  const Value input =
      part == 1 ? UnscaledLatents(b, configs, chunk)
                : b.Permute(InF32(b, b.Input(kFeatures, dtype, FeaturesShape(configs, chunk, part),
                                             Rate::kStep)),
                            {0, 3, 1, 2});
  const Value given = networks::DecodeAutoencoderTemporalPart(b, configs.vae, kVae, part, input);
  if (part == networks::DecoderPartsOf(configs.vae)) {
    GiveFrames(b, given);
  } else {
    const Value last = b.Permute(given, {0, 2, 3, 1});
    b.Output(kNextFeatures, dtype == DType::kF32 ? last : b.Cast(last, dtype));
  }
  return std::move(b).Build();
}

Shape FeaturesShape(const VideoConfigs& configs, const VideoShape& chunk, int part) {
  const Shape image =
      networks::DecoderPartInput(configs.vae, part, chunk.frames, chunk.height, chunk.width);
  return {image[0], image[2], image[3], image[1]};
}

}  // namespace latentd::families::svd
