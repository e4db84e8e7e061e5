#include "core/networks/unet_2d_conditions.h"

#include <memory>
#include <utility>
#include <vector>

#include "core/networks/cross_attentions.h"

namespace latentd::networks {
namespace {

// The added condition, [n, time_embedding_dim]: the pooled text beside the sinusoids of every time
// id. The ids are embedded column by column, since flattening them would mix rows into dimension 0.
Value AddedEmbedding(const Scope& unet, const Unet2dConditionConfig& config,
                     const Unet2dConditionInputs& inputs) {
  GraphBuilder& b = unet.builder();
  const int64_t rows = Dimension(b, inputs.time_ids, 0), ids = Dimension(b, inputs.time_ids, 1);
  std::vector<Value> parts = {inputs.text_embeds};
  for (int64_t i = 0; i < ids; ++i) {
    const Value column = b.Reshape(b.Slice(inputs.time_ids, 1, i, i + 1), {rows});
    parts.push_back(Sinusoids(b, config, column, config.addition_time_embed_dim));
  }
  // This embedding has silu whatever the config's act_fn is.
  return TimestepMlp(unet.Child("add_embedding"), b.Concat(parts, 1), config.time_embedding_dim,
                     Activation::kSilu);
}

Value TimeEmbedding(const Scope& unet, const Unet2dConditionConfig& config,
                    const Unet2dConditionInputs& inputs) {
  GraphBuilder& b = unet.builder();
  const Scope embedding = unet.Child("time_embedding");
  const int64_t features = config.blocks.front().channels;
  Value sinusoids = Sinusoids(b, config, inputs.timestep, features);
  if (config.time_cond_proj_dim > 0) {
    const Value condition =
        Linear(embedding.Child("cond_proj"), inputs.timestep_cond, features, Bias::kNone);
    sinusoids = b.Add(sinusoids, condition);
  }
  Value time = TimestepMlp(embedding, sinusoids, config.time_embedding_dim, config.activation);
  if (config.timestep_post_activation) time = Activate(b, time, *config.timestep_post_activation);
  if (inputs.added_time.id >= 0) time = b.Add(time, inputs.added_time);
  if (config.text_time) time = b.Add(time, AddedEmbedding(unet, config, inputs));
  if (config.time_embedding_activation) {
    time = Activate(b, time, *config.time_embedding_activation);
  }
  return time;
}

absl::Status CheckShape(const GraphBuilder& b, absl::string_view name, Value value,
                        const Shape& wanted) {
  if (value.id < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the UNet's input ", name, " is missing: its config asks for it"));
  }
  if (b.shape(value) == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the UNet's input ", name, " has shape ", b.shape(value).ToString(), ", but ",
                   wanted.ToString(), " is what its config asks for"));
}

absl::Status CheckImages(const GraphBuilder& b, const Unet2dConditionConfig& config,
                         const std::vector<std::vector<KeysAndValues>>& images, int64_t rows) {
  const std::vector<CrossAttention> attentions = CrossAttentionsOf(config);
  if (images.size() != attentions.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the UNet's input images are ", images.size(),
                                                   ", and it attends to text ", attentions.size(),
                                                   " times"));
  }
  absl::Status status;
  for (size_t i = 0; i < images.size(); ++i) {
    for (const KeysAndValues& one : images[i]) {
      const Shape wanted = {rows, Dimension(b, one.keys, 1), attentions[i].features};
      status.Update(CheckShape(b, "images (keys)", one.keys, wanted));
      status.Update(CheckShape(b, "images (values)", one.values, wanted));
    }
  }
  return status;
}

}  // namespace

absl::Status CheckInputs(const GraphBuilder& b, const Unet2dConditionConfig& config,
                         const Unet2dConditionInputs& inputs) {
  const auto size = [&](Value value, int dimension) { return Dimension(b, value, dimension); };
  const int64_t rows = size(inputs.sample, 0);
  absl::Status status;
  status.Update(
      CheckShape(b, "sample", inputs.sample,
                 {rows, config.in_channels, size(inputs.sample, 2), size(inputs.sample, 3)}));
  status.Update(CheckShape(b, "timestep", inputs.timestep, {rows}));
  status.Update(
      CheckShape(b, "encoder_hidden_states", inputs.encoder_hidden_states,
                 {rows, size(inputs.encoder_hidden_states, 1), config.cross_attention_dim}));
  if (config.time_cond_proj_dim > 0) {
    status.Update(
        CheckShape(b, "timestep_cond", inputs.timestep_cond, {rows, config.time_cond_proj_dim}));
  }
  if (config.text_time) {
    const int64_t ids = size(inputs.time_ids, 1);
    status.Update(CheckShape(b, "time_ids", inputs.time_ids, {rows, ids}));
    status.Update(
        CheckShape(b, "text_embeds", inputs.text_embeds, {rows, config.TextEmbedFeatures(ids)}));
  }
  if (inputs.added_time.id >= 0) {
    status.Update(
        CheckShape(b, "added_time", inputs.added_time, {rows, config.time_embedding_dim}));
  }
  if (!inputs.images.empty()) status.Update(CheckImages(b, config, inputs.images, rows));
  return status;
}

Value Sinusoids(GraphBuilder& b, const Unet2dConditionConfig& config, Value numbers, int64_t dim) {
  return b.TimestepEmbedding(numbers,
                             {.dim = dim,
                              .flip_sin_to_cos = config.flip_sin_to_cos,
                              .downscale_freq_shift = static_cast<float>(config.freq_shift)});
}

UnetConditions EmbedConditions(const Scope& unet, const Unet2dConditionConfig& config,
                               const Unet2dConditionInputs& inputs) {
  // Every residual block activates the time embedding first; it is done here once.
  const Value time = TimeEmbedding(unet, config, inputs);
  return {.time = Activate(unet.builder(), time, config.activation),
          .text = inputs.encoder_hidden_states,
          .images = std::make_shared<ImagesInOrder>(inputs.images)};
}

}  // namespace latentd::networks
