#include "core/families/sdxl/sdxl.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/families/family/clip_text.h"
#include "core/families/family/guidance_embedding.h"
#include "core/families/family/image_components.h"

namespace latentd::families::sdxl {
namespace {

using graph::GraphBuilder;
using graph::Value;
using pipeline::Offset;
using pipeline::PictureSpec;
using pipeline::Size;

// The hidden state that is read, from the end.
constexpr int kPenultimate = 2;

// original size, crop and target size; or original size, crop and aesthetic score.
int64_t TimeIdsOf(const ModelConfigs& configs) { return configs.requires_aesthetics_score ? 5 : 6; }

absl::Status Check(const weights::Checkpoint& checkpoint, const ModelConfigs& configs) {
  if (configs.text_encoders.empty() ||
      configs.text_encoders.back().config.kind != networks::ClipTextKind::kWithProjection) {
    return absl::InvalidArgumentError(
        absl::StrCat(checkpoint.index(),
                     ": an SDXL checkpoint has a text_encoder_2 of the class "
                     "CLIPTextModelWithProjection; this one has none"));
  }
  if (!configs.unet.text_time) {
    return Misfit(checkpoint, "unet", "SDXL's addition_embed_type is text_time");
  }
  const int64_t ids = TimeIdsOf(configs);
  const int64_t pooled = configs.text_encoders.back().config.pooled_features();
  if (configs.unet.TextEmbedFeatures(ids) == pooled) return absl::OkStatus();
  return Misfit(checkpoint, "unet",
                absl::StrCat("projection_class_embeddings_input_dim ",
                             configs.unet.addition_input_dim, " does not fit ", ids,
                             " time ids (requires_aesthetics_score in model_index.json decides) "
                             "and a pooled text of ",
                             pooled));
}

absl::Status CheckBase(const weights::Checkpoint& checkpoint, const ModelConfigs& configs) {
  if (!configs.requires_aesthetics_score) return Check(checkpoint, configs);
  return absl::InvalidArgumentError(absl::StrCat(
      checkpoint.index(), ": requires_aesthetics_score is true: this is a refiner (",
      checkpoint.pipeline_class(),
      "), which only draws over images; give it as the refiner, and a StableDiffusionXLPipeline as "
      "the base"));
}

pipeline::ModelReads RefinerReads(const ModelConfigs& configs) {
  return {.second_prompts = configs.text_encoders.size() == 2,
          .aesthetic_scores = configs.requires_aesthetics_score,
          .negative_prompt = !configs.embeds_guidance(),
          .zeros_for_negative = configs.force_zeros_for_empty_prompt};
}

pipeline::ModelReads BaseReads(const ModelConfigs& configs) {
  pipeline::ModelReads reads = RefinerReads(configs);
  reads.clip_skip = true;
  return reads;
}

// There are layers + 1 states, of which the last is skipped in any case.
int MaxClipSkip(const ModelConfigs& configs) {
  int64_t layers = configs.text_encoders.front().config.num_hidden_layers;
  for (const TextEncoder& encoder : configs.text_encoders) {
    layers = std::min(layers, encoder.config.num_hidden_layers);
  }
  return static_cast<int>(layers) - 1;
}

absl::StatusOr<graph::Graph> TextGraph(const ModelConfigs& configs, size_t encoder,
                                       const TextVariant& variant) {
  GraphBuilder b;
  ClipState state = EncodeClip(b, configs.text_encoders[encoder], variant);
  if (encoder + 1 < configs.text_encoders.size()) state.pooled = graph::kNone;
  OutputClip(b, configs.text_encoders[encoder], state, variant);
  return std::move(b).Build();
}

networks::Unet2dConditionInputs NetworkInputs(GraphBuilder& b, const ModelConfigs& configs,
                                              Value latents, Value timestep, int chunks) {
  const int64_t rows = b.shape(latents)[0];
  const auto request = [&](const char* name, int64_t features) {
    return b.Input(name, device::DType::kF32, {rows, features}, graph::Rate::kRequest);
  };
  networks::Unet2dConditionInputs inputs;
  inputs.sample = latents;
  inputs.timestep = timestep;
  inputs.encoder_hidden_states = JoinHiddenStates(b, configs, rows, chunks, EmphasisMean::kFree);
  inputs.text_embeds =
      request("text_embeds", configs.text_encoders.back().config.pooled_features());
  inputs.time_ids = request("time_ids", TimeIdsOf(configs));
  inputs.timestep_cond = GuidanceInput(b, configs, rows);
  return inputs;
}

Value Predict(GraphBuilder& b, const ModelConfigs& configs, Value latents, Value timestep,
              int chunks) {
  return networks::Unet2dCondition(b, configs.unet, "unet",
                                   NetworkInputs(b, configs, latents, timestep, chunks));
}

void Append(std::vector<float>& ids, const Size& size) {
  ids.push_back(static_cast<float>(size.height));
  ids.push_back(static_cast<float>(size.width));
}

void Append(std::vector<float>& ids, const Offset& offset) {
  ids.push_back(static_cast<float>(offset.top));
  ids.push_back(static_cast<float>(offset.left));
}

// Sizes as (height, width), then the aesthetic score where the checkpoint wants it.
std::vector<float> TimeIds(const PictureSpec& resolved, bool aesthetics, bool is_negative) {
  const bool image_to_image = resolved.has_image;
  // Text-to-image looks at negative sizes only where both are given; image-to-image takes each that
  // is.
  const bool negative =
      is_negative && (image_to_image || aesthetics ||
                      (resolved.negative_original_size && resolved.negative_target_size));
  std::vector<float> ids;
  if (!negative) {
    Append(ids, *resolved.original_size);
    Append(ids, *resolved.crops_coords_top_left);
    if (aesthetics) ids.push_back(static_cast<float>(*resolved.aesthetic_score));
    if (!aesthetics) Append(ids, *resolved.target_size);
    return ids;
  }
  Append(ids, resolved.negative_original_size.value_or(*resolved.original_size));
  // diffusers' image-to-image without aesthetic scores takes the positive crop here.
  const bool own_crop = aesthetics || !image_to_image;
  Append(ids, own_crop ? resolved.negative_crops_coords_top_left.value_or(Offset{})
                       : *resolved.crops_coords_top_left);
  if (aesthetics) ids.push_back(static_cast<float>(*resolved.negative_aesthetic_score));
  if (!aesthetics) Append(ids, resolved.negative_target_size.value_or(*resolved.target_size));
  return ids;
}

// A row's two prompts, by the fields of the request.
struct Prompts {
  PromptText first, second;
};

// An empty second prompt is the first one again. `skip`: layers beyond the one that is left out.
absl::Status AddText(const ModelConfigs& configs, const PictureSpec& resolved,
                     const Prompts& prompts, int skip, RowInputs& row) {
  const bool has_second = configs.text_encoders.size() == 2 && !prompts.second.text.empty();
  for (size_t i = 0; i < configs.text_encoders.size(); ++i) {
    const TextEncoder& encoder = configs.text_encoders[i];
    const bool is_second = has_second && i + 1 == configs.text_encoders.size();
    const int64_t layer = encoder.config.num_hidden_layers + 1 - kPenultimate - skip;
    RETURN_IF_ERROR(AddClipPrompt(encoder, i, is_second ? prompts.second : prompts.first, resolved,
                                  layer, row));
  }
  return absl::OkStatus();
}

absl::Status AddNegativeText(const ModelConfigs& configs, const PictureSpec& resolved, int skip,
                             RowInputs& row) {
  // diffusers: zeros instead of an encoded "" where the checkpoint was trained so and there is no
  // negative prompt.
  if (resolved.negative_prompt || !configs.force_zeros_for_empty_prompt) {
    const std::string first = resolved.negative_prompt.value_or("");
    const std::string second = resolved.negative_prompt_2.value_or("");
    return AddText(configs, resolved, {{"negative_prompt", first}, {"negative_prompt_2", second}},
                   skip, row);
  }
  for (const TextEncoder& encoder : configs.text_encoders) AddNoPrompt(encoder, row);
  return absl::OkStatus();
}

// Skipped layers of the negative prompt are A1111's alone: diffusers skips none there.
absl::StatusOr<RowInputs> Row(const ModelConfigs& configs, const PictureSpec& resolved,
                              bool negative, int skip, int negative_skip) {
  RowInputs row;
  if (AddEmbeds(configs, resolved, negative, row)) {
    // No prompt beside them.
  } else if (negative) {
    RETURN_IF_ERROR(AddNegativeText(configs, resolved, negative_skip, row));
  } else {
    const std::string second = resolved.prompt_2.value_or("");
    RETURN_IF_ERROR(
        AddText(configs, resolved, {{"prompt", resolved.prompt}, {"prompt_2", second}}, skip, row));
  }
  row.request.push_back(
      {"time_ids", TimeIds(resolved, configs.requires_aesthetics_score, negative)});
  AddGuidance(configs, resolved, row);
  return row;
}

absl::StatusOr<RowInputs> BaseRow(const ModelConfigs& configs, const PictureSpec& resolved,
                                  bool negative) {
  if (!resolved.clip_skip_a1111) {
    return Row(configs, resolved, negative, resolved.clip_skip.value_or(0), /*negative_skip=*/0);
  }
  const int skip = std::max(*resolved.clip_skip_a1111, kPenultimate) - kPenultimate;
  return Row(configs, resolved, negative, skip, skip);
}

absl::StatusOr<RowInputs> RefinerRow(const ModelConfigs& configs, const PictureSpec& resolved,
                                     bool negative) {
  return Row(configs, resolved, negative, /*skip=*/0, /*negative_skip=*/0);
}

// About a megapixel, as in its training.
constexpr Size kSizes[] = {{1024, 1024}, {1152, 896}, {896, 1152}, {1216, 832}, {832, 1216},
                           {1344, 768},  {768, 1344}, {1536, 640}, {640, 1536}};

constexpr Family Make(bool is_refiner) {
  return {.name = is_refiner ? "sdxl_refiner" : "sdxl",
          .title = is_refiner ? "the refiner of Stable Diffusion XL" : "Stable Diffusion XL",
          .class_prefix = "StableDiffusionXL",
          .starts_from_image = is_refiner,
          .hands_over_to = is_refiner ? nullptr : &kRefiner,
          .components = kImageComponents,
          .defaults = {.steps = 50,
                       .guidance_scale = 5.0,
                       .strength = 0.3,
                       .mask_strength = 0.9999,
                       .denoising_end = 0.8,
                       .clip_skip_a1111 = kPenultimate},
          .sample_side = 128,
          .sizes = kSizes,
          .check = is_refiner ? Check : CheckBase,
          .reads = is_refiner ? RefinerReads : BaseReads,
          .max_clip_skip = MaxClipSkip,
          .text_graph = TextGraph,
          .network_inputs = NetworkInputs,
          .predict = Predict,
          .row = is_refiner ? RefinerRow : BaseRow};
}

}  // namespace

constinit const Family kBase = Make(/*is_refiner=*/false);
constinit const Family kRefiner = Make(/*is_refiner=*/true);

}  // namespace latentd::families::sdxl
