#include "core/pipeline/conditioning.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/pipeline/finite.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;

// SDXL reads the penultimate hidden state.
constexpr int kPenultimate = 2;

struct Encoded {
  Buffer hidden_states;  // [1, 77, features]
  Buffer pooled;         // [1, channels]
};

// The prompt of each of the model's encoders: an empty second prompt is the first one again.
std::vector<std::string> PerEncoder(const SdxlModel& model, const std::string& prompt,
                                    const std::optional<std::string>& prompt_2) {
  std::vector<std::string> prompts(model.text_encoders().size(), prompt);
  if (prompts.size() == 2 && !prompt_2.value_or("").empty()) prompts[1] = *prompt_2;
  return prompts;
}

std::vector<std::string> PositivePrompts(const SdxlModel& model, const PictureSpec& spec) {
  return PerEncoder(model, spec.prompt, spec.prompt_2);
}

std::vector<std::string> NegativePrompts(const SdxlModel& model, const PictureSpec& spec) {
  return PerEncoder(model, spec.negative_prompt.value_or(""), spec.negative_prompt_2);
}

absl::StatusOr<Encoded> EncodeOne(const Stage& stage, size_t index, const std::string& prompt,
                                  int layers_from_end) {
  const TextEncoder& encoder = stage.model->text_encoders()[index];
  std::vector<int64_t> ids = encoder.tokenizer->EncodePadded(prompt).ids;
  int64_t end = models::EosPosition(encoder.config, ids);
  const auto length = static_cast<int64_t>(ids.size());
  ASSIGN_OR_RETURN(
      const NamedBuffers outputs,
      RunGraph(*stage.text[index],
               {{"input_ids", Buffer::Wrap(ids.data(), DType::kI64, {1, length}, nullptr)},
                {"pooled_position", Buffer::Wrap(&end, DType::kI64, {1}, nullptr)}}));
  const int64_t state = encoder.config.num_hidden_layers + 1 - layers_from_end;
  Encoded encoded{outputs.at(absl::StrCat("hidden_states.", state)), outputs.at("pooled")};
  RETURN_IF_ERROR(
      CheckFinite(encoded.hidden_states, "encoded prompt",
                  absl::StrCat("the ", NameOf(stage.model->which()), "'s ", encoder.component)));
  return encoded;
}

// Joins the encoders' states along the features.
Buffer Join(const std::vector<Encoded>& parts) {
  int64_t features = 0;
  for (const Encoded& part : parts) features += part.hidden_states.shape()[2];
  const int64_t tokens = parts.front().hidden_states.shape()[1];
  Buffer joined = Buffer::Allocate(DType::kF32, {1, tokens, features});
  float* to = joined.as<float>().data();
  for (int64_t token = 0; token < tokens; ++token) {
    for (const Encoded& part : parts) {
      const int64_t width = part.hidden_states.shape()[2];
      std::copy_n(part.hidden_states.as<float>().data() + token * width, width, to);
      to += width;
    }
  }
  return joined;
}

absl::StatusOr<Encoded> Encode(const Stage& stage, const std::vector<std::string>& prompts,
                               int layers_from_end) {
  std::vector<Encoded> parts;
  for (size_t i = 0; i < prompts.size(); ++i) {
    ASSIGN_OR_RETURN(Encoded part, EncodeOne(stage, i, prompts[i], layers_from_end));
    parts.push_back(std::move(part));
  }
  return Encoded{Join(parts), parts.back().pooled};
}

// diffusers: zeros instead of an encoded "" where the checkpoint was trained so and nobody gave a
// negative prompt.
absl::StatusOr<Encoded> EncodeNegative(const Stage& stage, const PictureSpec& spec,
                                       const Encoded& like) {
  const SdxlModel& model = *stage.model;
  if (!spec.negative_prompt && model.force_zeros_for_empty_prompt()) {
    return Encoded{Buffer::Allocate(DType::kF32, like.hidden_states.shape()),
                   Buffer::Allocate(DType::kF32, like.pooled.shape())};
  }
  return Encode(stage, NegativePrompts(model, spec), kPenultimate);
}

void Append(std::vector<float>& ids, const Size& size) {
  ids.push_back(static_cast<float>(size.height));
  ids.push_back(static_cast<float>(size.width));
}

void Append(std::vector<float>& ids, const Offset& offset) {
  ids.push_back(static_cast<float>(offset.top));
  ids.push_back(static_cast<float>(offset.left));
}

// One row of the request graph's packed results, into those of all rows.
absl::Status RunRequestPart(const Stage& stage, const Encoded& text, std::vector<float> time_ids,
                            int64_t row, NamedBuffers& rows) {
  const auto count = static_cast<int64_t>(time_ids.size());
  ASSIGN_OR_RETURN(
      const NamedBuffers outputs,
      RunGraph(*stage.request_part,
               {{"encoder_hidden_states", text.hidden_states},
                {"text_embeds", text.pooled},
                {"time_ids", Buffer::Wrap(time_ids.data(), DType::kF32, {1, count}, nullptr)}}));
  for (const auto& [name, packed] : outputs) {
    std::memcpy(rows.at(name).Rows(row, row + 1).data(), packed.data(), packed.bytes());
  }
  return absl::OkStatus();
}

// The request graph's packed results for so many rows.
NamedBuffers AllocateRows(const backends::Executable& request_part, int64_t rows) {
  NamedBuffers buffers;
  for (const backends::Port& port : request_part.outputs()) {
    buffers[port.name] = Buffer::Allocate(port.dtype, {rows, port.shape[1]});
  }
  return buffers;
}

}  // namespace

absl::StatusOr<Conditioning> MakeConditioning(const Stage& stage, const PictureSpec& resolved) {
  const SdxlModel& model = *stage.model;
  const int skip = model.which() == Model::kBase ? resolved.clip_skip.value_or(0) : 0;
  std::vector<Encoded> rows;
  ASSIGN_OR_RETURN(Encoded positive,
                   Encode(stage, PositivePrompts(model, resolved), kPenultimate + skip));
  if (UsesGuidance(resolved)) {
    ASSIGN_OR_RETURN(Encoded negative, EncodeNegative(stage, resolved, positive));
    rows.push_back(std::move(negative));
  }
  rows.push_back(std::move(positive));

  Conditioning conditioning;
  const auto count = static_cast<int64_t>(rows.size());
  conditioning.request = AllocateRows(*stage.request_part, count);
  for (int64_t i = 0; i < count; ++i) {
    const bool conditional = i + 1 == count;
    RETURN_IF_ERROR(RunRequestPart(stage, rows[i], TimeIds(model, resolved, conditional), i,
                                   conditioning.request));
    conditioning.hidden_states.push_back(rows[i].hidden_states);
    conditioning.pooled.push_back(rows[i].pooled);
  }
  return conditioning;
}

bool UsesGuidance(const PictureSpec& resolved) { return *resolved.guidance_scale > 1; }

int RowsOf(const PictureSpec& resolved) { return UsesGuidance(resolved) ? 2 : 1; }

std::vector<float> TimeIds(const SdxlModel& model, const PictureSpec& resolved, bool conditional) {
  const bool image_to_image = !resolved.image.empty();
  const bool aesthetics = model.requires_aesthetics_score();
  // Text-to-image looks at negative sizes only where both are given; image-to-image takes each that
  // is.
  const bool negative =
      !conditional && (image_to_image || aesthetics ||
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

int64_t DroppedTokens(const SdxlModel& model, const PictureSpec& spec) {
  int64_t most = 0;
  const auto prompts = PositivePrompts(model, spec);
  const auto negatives = NegativePrompts(model, spec);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const tokenizer::ClipTokenizer& tokenizer = *model.text_encoders()[i].tokenizer;
    most = std::max(
        {most, tokenizer.Encode(prompts[i]).dropped, tokenizer.Encode(negatives[i]).dropped});
  }
  return most;
}

}  // namespace latentd::pipeline
