#include "core/pipeline/units/conditioning.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/pipeline/graphs/text_graphs.h"
#include "core/pipeline/lanes/pinned.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;

// SDXL reads the penultimate hidden state.
constexpr int kPenultimate = 2;

// Text as one encoder has encoded it.
struct EncodedText {
  Buffer hidden_state;  // [1, 77, features]
  Buffer pooled;        // [1, channels]
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

// The graphs of a stage, and where they are enqueued.
struct StageGraphs {
  const Stage& stage;
  device::Stream& stream;
  PendingWork& work;

  device::Device& device() const { return stage.device(); }
};

absl::StatusOr<Buffer> Integers(const StageGraphs& to, absl::Span<const int64_t> values,
                                device::Shape shape) {
  return Pinned(to.device(), DType::kI64, std::move(shape), values);
}

absl::StatusOr<EncodedText> EncodeOne(const StageGraphs& to, size_t index,
                                      const std::string& prompt, int layers_from_end) {
  const SdxlModel& model = to.stage.model();
  const TextEncoder& encoder = model.text_encoders()[index];
  const std::vector<int64_t> ids = encoder.tokenizer->EncodePadded(prompt).ids;
  const int64_t end = networks::EosPosition(encoder.config, ids);
  const int64_t layer = encoder.config.num_hidden_layers + 1 - layers_from_end;
  NamedBuffers inputs;
  ASSIGN_OR_RETURN(inputs["input_ids"], Integers(to, ids, {1, static_cast<int64_t>(ids.size())}));
  ASSIGN_OR_RETURN(inputs["pooled_position"], Integers(to, {&end, 1}, {1}));
  ASSIGN_OR_RETURN(inputs["layer"], Integers(to, {&layer, 1}, {1}));
  ASSIGN_OR_RETURN(
      const NamedBuffers outputs,
      EnqueueGraph(to.stage.text[index], inputs, /*to_host=*/{"finite"}, to.stream, to.work));
  to.work.flags.push_back({outputs.at("finite"), "encoded prompt",
                           absl::StrCat("the ", model.row().name, "'s ", encoder.component)});
  return EncodedText{outputs.at("hidden_state"), outputs.at("pooled")};
}

absl::StatusOr<EncodedPrompt> Encode(const StageGraphs& to, const std::vector<std::string>& prompts,
                                     int layers_from_end) {
  EncodedPrompt encoded;
  encoded.hidden_states.resize(prompts.size());
  // The last one is the largest: while the device is at it, the host prepares the others' runs.
  for (size_t i = prompts.size(); i-- > 0;) {
    ASSIGN_OR_RETURN(EncodedText text, EncodeOne(to, i, prompts[i], layers_from_end));
    encoded.hidden_states[i] = std::move(text.hidden_state);
    if (i + 1 == prompts.size()) encoded.pooled = std::move(text.pooled);
  }
  return encoded;
}

absl::StatusOr<EncodedPrompt> ZerosLike(device::Device& device, const EncodedPrompt& like) {
  EncodedPrompt zeros;
  for (const Buffer& states : like.hidden_states) {
    ASSIGN_OR_RETURN(zeros.hidden_states.emplace_back(),
                     device.Allocate(DType::kF32, states.shape(), device::Place::kDevice));
  }
  ASSIGN_OR_RETURN(zeros.pooled,
                   device.Allocate(DType::kF32, like.pooled.shape(), device::Place::kDevice));
  return zeros;
}

// diffusers: zeros instead of an encoded "" where the checkpoint was trained so and there is no
// negative prompt.
absl::StatusOr<EncodedPrompt> EncodeNegative(const StageGraphs& to, const PictureSpec& spec,
                                             const EncodedPrompt& like) {
  const SdxlModel& model = to.stage.model();
  if (!spec.negative_prompt && model.force_zeros_for_empty_prompt()) {
    return ZerosLike(to.device(), like);
  }
  return Encode(to, NegativePrompts(model, spec), kPenultimate);
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
absl::Status EnqueueRequestPart(const StageGraphs& to, const EncodedPrompt& text,
                                const std::vector<float>& time_ids, int64_t row,
                                const NamedBuffers& rows) {
  NamedBuffers ports = {{"text_embeds", text.pooled}};
  ASSIGN_OR_RETURN(ports["time_ids"],
                   Pinned(to.device(), DType::kF32, {1, static_cast<int64_t>(time_ids.size())},
                          absl::MakeConstSpan(time_ids)));
  for (size_t i = 0; i < text.hidden_states.size(); ++i) {
    ports[HiddenStatesInput(i)] = text.hidden_states[i];
  }
  for (const auto& [name, packed] : rows) ports[name] = packed.Rows(row, row + 1);
  return EnqueueGraph(to.stage.request_part, ports, /*to_host=*/{}, to.stream, to.work).status();
}

// The request graph's packed results for so many rows.
absl::StatusOr<NamedBuffers> AllocateRows(const backends::Executable& request_part, int64_t rows) {
  NamedBuffers buffers;
  for (const backends::Port& port : request_part.outputs()) {
    ASSIGN_OR_RETURN(
        buffers[port.name],
        request_part.device().Allocate(port.dtype, {rows, port.shape[1]}, device::Place::kDevice));
  }
  return buffers;
}

}  // namespace

absl::StatusOr<std::vector<EncodedPrompt>> EncodePrompts(const Stage& stage,
                                                         const PictureSpec& resolved,
                                                         device::Stream& stream,
                                                         PendingWork& work) {
  const StageGraphs to = {stage, stream, work};
  const SdxlModel& model = stage.model();
  const int skip = model.row().is_refiner ? 0 : resolved.clip_skip.value_or(0);
  std::vector<EncodedPrompt> rows;
  ASSIGN_OR_RETURN(EncodedPrompt positive,
                   Encode(to, PositivePrompts(model, resolved), kPenultimate + skip));
  if (UsesGuidance(resolved)) {
    ASSIGN_OR_RETURN(EncodedPrompt negative, EncodeNegative(to, resolved, positive));
    rows.push_back(std::move(negative));
  }
  rows.push_back(std::move(positive));
  return rows;
}

absl::StatusOr<NamedBuffers> MakeConditioning(const Stage& stage, const PictureSpec& resolved,
                                              device::Stream& stream, PendingWork& work) {
  const StageGraphs to = {stage, stream, work};
  ASSIGN_OR_RETURN(const std::vector<EncodedPrompt> rows,
                   EncodePrompts(stage, resolved, stream, work));
  const auto count = static_cast<int64_t>(rows.size());
  ASSIGN_OR_RETURN(NamedBuffers packed, AllocateRows(*stage.request_part, count));
  for (int64_t i = 0; i < count; ++i) {
    const bool conditional = i + 1 == count;
    RETURN_IF_ERROR(
        EnqueueRequestPart(to, rows[i], TimeIds(stage.model(), resolved, conditional), i, packed));
  }
  return packed;
}

std::vector<float> TimeIds(const SdxlModel& model, const PictureSpec& resolved, bool conditional) {
  const bool image_to_image = resolved.has_image;
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

int64_t DroppedTokens(const Plan& plan) {
  int64_t most = 0;
  for (const PlannedStage& stage : plan.stages) {
    const auto prompts = PositivePrompts(*stage.model, plan.spec);
    const auto negatives = NegativePrompts(*stage.model, plan.spec);
    for (size_t i = 0; i < prompts.size(); ++i) {
      const tokenizer::ClipTokenizer& tokenizer = *stage.model->text_encoders()[i].tokenizer;
      most = std::max(
          {most, tokenizer.Encode(prompts[i]).dropped, tokenizer.Encode(negatives[i]).dropped});
    }
  }
  return most;
}

}  // namespace latentd::pipeline
