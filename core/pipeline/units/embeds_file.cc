#include "core/pipeline/units/embeds_file.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/tensor_file.h"
#include "core/families/family/clip_text.h"

namespace latentd::pipeline {
namespace {

using families::RowInputs;
using Type = HostTensor::Type;

constexpr int64_t kMostEmbedsHeader = 1024;  // bytes, of four entries
constexpr char kPooledState[] = "text_embeds";

absl::string_view FormatNameOf(Type type) {
  if (type == Type::kFloat16) return "F16";
  return type == Type::kBFloat16 ? "BF16" : "F32";
}

// Both round to the nearest, of two to the even one.
uint16_t ToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t ToFloat16(float value) {
  constexpr float kLeastNormal = 0x1p-14F;
  constexpr uint32_t kBiasDifference = 112U << 23;
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const float magnitude = std::fabs(value);
  if (magnitude < kLeastNormal) {
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24F)));
  }
  const auto bits = std::bit_cast<uint32_t>(magnitude) - kBiasDifference;
  return static_cast<uint16_t>(sign | (bits + 0xfff + (bits >> 13 & 1)) >> 13);
}

template <typename T>
void Append(T bits, std::string& data) {
  for (size_t byte = 0; byte < sizeof(T); ++byte) {
    data.push_back(static_cast<char>(bits >> (8 * byte) & 0xff));
  }
}

void Append(float value, Type type, std::string& data) {
  if (type == Type::kFloat32) return Append(std::bit_cast<uint32_t>(value), data);
  Append(type == Type::kFloat16 ? ToFloat16(value) : ToBFloat16(value), data);
}

// The largest that rounds to a finite number.
float LimitOf(Type type) {
  constexpr uint32_t kBFloat16 = 0x7f7f7fff;  // behind the last bit that is kept, less than a half
  if (type == Type::kBFloat16) return std::bit_cast<float>(kBFloat16);
  return type == Type::kFloat16 ? 65519.0F : std::numeric_limits<float>::max();
}

absl::StatusOr<NamedTensor> Tensor(std::string name, Type type, std::vector<int64_t> shape,
                                   absl::Span<const float> values) {
  NamedTensor tensor = {std::move(name), std::string(FormatNameOf(type)), std::move(shape), {}};
  for (const float value : values) {
    if (!std::isfinite(value)) {
      return absl::InternalError("the weighted embeddings are not finite");
    }
    if (std::fabs(value) > LimitOf(type)) {
      return InvalidFields({{"dtype", absl::StrCat("the embeddings have numbers such as ", value,
                                                   ", which it cannot hold: ask for FLOAT32")}});
    }
    Append(value, type, tensor.data);
  }
  return tensor;
}

// Weighted hidden states of one encoder, [tokens, features].
std::vector<float> StatesOf(const families::TextEncoder& encoder, const RowInputs& row,
                            const NamedBuffers& encoded) {
  const auto given = encoded.at(families::HiddenStatesInput(encoder.component)).as<float>();
  std::vector<float> states(given.begin(), given.end());
  const auto origins = encoded.find(families::EmphasisOriginInput(encoder.component));
  if (origins != encoded.end()) {
    families::WeighStates(encoder, row, origins->second.as<float>(), absl::MakeSpan(states));
  }
  return states;
}

// The states of all encoders side by side, [tokens, joined features].
std::vector<float> JoinedStates(const LoadedModel& model, const RowInputs& row,
                                const NamedBuffers& encoded) {
  const auto width = static_cast<size_t>(model.configs().joined_features());
  std::vector<float> joined;
  size_t begin = 0;
  for (const families::TextEncoder& encoder : model.text_encoders()) {
    const auto features = static_cast<size_t>(encoder.config.hidden_size);
    const std::vector<float> states = StatesOf(encoder, row, encoded);
    joined.resize(states.size() / features * width);
    for (size_t i = 0; i < states.size(); ++i) {
      joined[i / features * width + begin + i % features] = states[i];
    }
    begin += features;
  }
  return joined;
}

absl::Status AddRow(const Plan& plan, size_t index, const NamedBuffers& encoded,
                    std::vector<NamedTensor>& tensors) {
  const PlannedStage& stage = plan.stages.front();
  const char* prefix = index + 1 < stage.prompts.size() ? "negative_" : "";
  const LoadedModel& model = *stage.model;
  const Type type = *plan.spec.output_embeds;
  const int64_t width = model.configs().joined_features();
  const std::vector<float> states = JoinedStates(model, stage.prompts[index], encoded);
  ASSIGN_OR_RETURN(tensors.emplace_back(),
                   Tensor(absl::StrCat(prefix, "prompt_embeds"), type,
                          {static_cast<int64_t>(states.size()) / width, width}, states));
  const auto pooled = encoded.find(kPooledState);
  if (pooled == encoded.end()) return absl::OkStatus();
  ASSIGN_OR_RETURN(tensors.emplace_back(),
                   Tensor(absl::StrCat(prefix, "pooled_prompt_embeds"), type,
                          {pooled->second.elements()}, pooled->second.as<float>()));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> EmbedsFile(const Plan& plan, absl::Span<const NamedBuffers> rows) {
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].empty()) RETURN_IF_ERROR(AddRow(plan, i, rows[i], tensors));
  }
  return TensorFile(tensors);
}

int64_t EmbedsFileBytes(const Plan& plan) {
  const PlannedStage& stage = plan.stages.front();
  const families::ModelConfigs& configs = stage.model->configs();
  const int64_t tokens =
      int64_t{stage.chunks()} * configs.text_encoders.front().tokenizer->max_length();
  const int64_t numbers = tokens * configs.joined_features() + configs.pooled_features();
  const int64_t size = *plan.spec.output_embeds == Type::kFloat32 ? 4 : 2;
  int64_t rows = 0;
  for (const RowInputs& row : stage.prompts) rows += row.text.empty() ? 0 : 1;
  return kMostEmbedsHeader + rows * numbers * size;
}

}  // namespace latentd::pipeline
