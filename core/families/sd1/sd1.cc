#include "core/families/sd1/sd1.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/families/family/clip_text.h"
#include "core/families/family/guidance_embedding.h"
#include "core/families/family/image_components.h"

namespace latentd::families::sd1 {
namespace {

using graph::GraphBuilder;
using graph::Value;
using pipeline::PictureSpec;
using pipeline::Size;

absl::Status Check(const weights::Checkpoint& checkpoint, const ModelConfigs& configs) {
  if (configs.text_encoders.size() != 1 ||
      configs.text_encoders.front().config.kind != networks::ClipTextKind::kPlain) {
    return absl::InvalidArgumentError(
        absl::StrCat(checkpoint.index(), ": _class_name is ", checkpoint.pipeline_class(),
                     ", which has a text_encoder of the class CLIPTextModel and no other"));
  }
  if (!configs.unet.text_time) return absl::OkStatus();
  return Misfit(checkpoint, "unet", "addition_embed_type text_time is of Stable Diffusion XL");
}

// A1111 counts from the last layer.
constexpr int kFirstClipSkipA1111 = 1;

pipeline::ModelReads Reads(const ModelConfigs& configs) {
  return {.clip_skip = true, .sizes = false, .negative_prompt = !configs.embeds_guidance()};
}

int MaxClipSkip(const ModelConfigs& configs) {
  return static_cast<int>(configs.text_encoders.front().config.num_hidden_layers);
}

absl::StatusOr<graph::Graph> TextGraph(const ModelConfigs& configs, size_t index,
                                       const TextVariant& variant) {
  GraphBuilder b;
  const TextEncoder& encoder = configs.text_encoders[index];
  const Value state = EncodeClip(b, encoder, variant).state;
  OutputClip(b, encoder,
             {networks::NormClipState(b, encoder.config, encoder.component, state), graph::kNone},
             variant);
  return std::move(b).Build();
}

networks::Unet2dConditionInputs NetworkInputs(GraphBuilder& b, const ModelConfigs& configs,
                                              Value latents, Value timestep, int chunks) {
  networks::Unet2dConditionInputs inputs;
  inputs.sample = latents;
  inputs.timestep = timestep;
  inputs.encoder_hidden_states =
      JoinHiddenStates(b, configs, b.shape(latents)[0], chunks, EmphasisMean::kRestored);
  inputs.timestep_cond = GuidanceInput(b, configs, b.shape(latents)[0]);
  return inputs;
}

Value Predict(GraphBuilder& b, const ModelConfigs& configs, Value latents, Value timestep,
              int chunks) {
  return networks::Unet2dCondition(b, configs.unet, "unet",
                                   NetworkInputs(b, configs, latents, timestep, chunks));
}

// The negative prompt has no part in clip_skip, as in diffusers, but in A1111's.
absl::StatusOr<RowInputs> Row(const ModelConfigs& configs, const PictureSpec& resolved,
                              bool negative) {
  const TextEncoder& encoder = configs.text_encoders.front();
  const std::string prompt = negative ? resolved.negative_prompt.value_or("") : resolved.prompt;
  const int skip = resolved.clip_skip_a1111 ? *resolved.clip_skip_a1111 - kFirstClipSkipA1111
                   : negative               ? 0
                                            : resolved.clip_skip.value_or(0);
  RowInputs row;
  if (!AddEmbeds(configs, resolved, negative, row)) {
    RETURN_IF_ERROR(AddClipPrompt(encoder, 0, {negative ? "negative_prompt" : "prompt", prompt},
                                  resolved, encoder.config.num_hidden_layers - skip, row));
  }
  AddMeanRule(encoder, row);
  AddGuidance(configs, resolved, row);
  return row;
}

constexpr Size kSizes[] = {{512, 512}, {576, 448}, {448, 576}, {640, 384}, {384, 640}};

}  // namespace

constinit const Family kFamily = {.name = "sd1",
                                  .title = "Stable Diffusion 1 and 2",
                                  .class_prefix = "StableDiffusion",
                                  .components = kImageComponents,
                                  .defaults = {.steps = 50,
                                               .guidance_scale = 7.5,
                                               .strength = 0.8,
                                               .clip_skip_a1111 = kFirstClipSkipA1111},
                                  .sample_side = 64,
                                  .sizes = kSizes,
                                  .align_your_steps = schedulers::AlignYourStepsTable::kSd15,
                                  .check = Check,
                                  .reads = Reads,
                                  .max_clip_skip = MaxClipSkip,
                                  .text_graph = TextGraph,
                                  .network_inputs = NetworkInputs,
                                  .predict = Predict,
                                  .row = Row};

}  // namespace latentd::families::sd1
