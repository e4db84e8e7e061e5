#include "core/pipeline/plan/embeds.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/families/family/clip_text.h"

namespace latentd::pipeline {
namespace {

using families::RowEmbeds;
using families::RowInputs;
using Type = HostTensor::Type;

constexpr size_t kShownDims = 8;

// The fields of a prompt, or of a negative one.
struct Names {
  absl::string_view states, pooled, text, text_2;
};
constexpr Names kPromptNames = {"prompt_embeds", "pooled_prompt_embeds", "prompt", "prompt_2"};
constexpr Names kNegativeNames = {"negative_prompt_embeds", "negative_pooled_prompt_embeds",
                                  "negative_prompt", "negative_prompt_2"};

int64_t BytesOf(Type type) { return type == Type::kFloat32 ? 4 : 2; }

absl::string_view NameOf(Type type) {
  if (type == Type::kFloat16) return "float16";
  return type == Type::kBFloat16 ? "bfloat16" : "float32";
}

// Without the dimensions of 1 that a batch of one has.
std::vector<int64_t> Squeezed(const std::vector<int64_t>& shape, size_t rank) {
  size_t ones = 0;
  while (shape.size() - ones > rank && shape[ones] == 1) ++ones;
  return {shape.begin() + static_cast<std::ptrdiff_t>(ones), shape.end()};
}

absl::Status BadField(absl::string_view field, absl::string_view what) {
  return InvalidFields({{std::string(field), std::string(what)}});
}

float FromBFloat16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// IEEE 754's binary16: with its bits in a float's place the exponent is 112 less, of subnormal
// numbers too.
float FromFloat16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000U} << 16, rest = bits & 0x7fffU;
  constexpr uint32_t kInfinity = 0x7c00, kFloatInfinity = 0x7f800000;
  const uint32_t magnitude =
      rest >= kInfinity ? kFloatInfinity | (rest & 0x3ffU) << 13
                        : std::bit_cast<uint32_t>(std::bit_cast<float>(rest << 13) * 0x1p112F);
  return std::bit_cast<float>(sign | magnitude);
}

template <typename T>
T BitsAt(const HostTensor& tensor, int64_t index) {
  T bits;
  std::memcpy(&bits, tensor.data.data() + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return bits;
}

float ElementAt(const HostTensor& tensor, int64_t index) {
  if (tensor.type == Type::kFloat32) return std::bit_cast<float>(BitsAt<uint32_t>(tensor, index));
  const auto bits = BitsAt<uint16_t>(tensor, index);
  return tensor.type == Type::kFloat16 ? FromFloat16(bits) : FromBFloat16(bits);
}

int64_t TokensOf(const LoadedModel& model) {
  return model.text_encoders().front().tokenizer->max_length();
}

absl::Status CheckStates(absl::string_view field, const LoadedModel& model,
                         const HostTensor& tensor) {
  const int64_t tokens = TokensOf(model), width = model.configs().joined_features();
  const std::vector<int64_t> shape = Squeezed(tensor.shape, 2);
  const bool fits = shape.size() == 2 && shape[1] == width && shape[0] > 0 &&
                    shape[0] % tokens == 0 && shape[0] <= tokens * prompts::kMaxChunks;
  if (fits) return CheckNumbers(field, tensor);
  return BadField(field, absl::StrCat("must have the shape [", tokens, " k, ", width,
                                      "] with k from 1 to ", prompts::kMaxChunks, ", since the ",
                                      model.row().name, "'s text encoders give ", width,
                                      " numbers a token; has ", ShapeText(tensor.shape)));
}

absl::Status CheckPooled(absl::string_view field, const LoadedModel& model,
                         const HostTensor& tensor) {
  const int64_t width = model.configs().pooled_features();
  if (width == 0) {
    return BadField(
        field, absl::StrCat("the ", model.row().name, " reads no pooled embeddings, as models of ",
                            model.family().title, " do not: unset it"));
  }
  if (Squeezed(tensor.shape, 1) == std::vector<int64_t>{width}) return CheckNumbers(field, tensor);
  return BadField(field,
                  absl::StrCat("must have the shape [", width, "], as the ", model.row().name,
                               "'s text encoder gives it; has ", ShapeText(tensor.shape)));
}

absl::Status CheckSide(const Names& names, const LoadedModel& model, const Embeds& embeds) {
  if (embeds.states) RETURN_IF_ERROR(CheckStates(names.states, model, *embeds.states));
  if (embeds.pooled) return CheckPooled(names.pooled, model, *embeds.pooled);
  if (!embeds.states || model.configs().pooled_features() == 0) return absl::OkStatus();
  return BadField(names.pooled, absl::StrCat("the ", model.row().name, " reads it beside ",
                                             names.states, ": set it too"));
}

// Finds what stands beside embeddings though they stand in its place, or without them.
void FindClashes(const Names& names, const Embeds& embeds, bool has_text, bool has_text_2,
                 std::vector<FieldViolation>& found) {
  if (embeds.states && (has_text || has_text_2)) {
    found.push_back({std::string(names.states),
                     absl::StrCat("stands in place of ", has_text ? names.text : names.text_2,
                                  ": unset one of them")});
  }
  if (embeds.pooled && !embeds.states) {
    found.push_back(
        {std::string(names.pooled), absl::StrCat("goes with ", names.states, ": set that too")});
  }
}

int64_t RowsOf(const HostTensor& tensor) { return Squeezed(tensor.shape, 2).front(); }

// A row of embeddings beside a longer one.
absl::Status TooShort(const RowInputs& row, int chunks, int64_t tokens) {
  const bool negative = row.embeds == RowEmbeds::kNegative;
  const Names &own = negative ? kNegativeNames : kPromptNames,
              &other = negative ? kPromptNames : kNegativeNames;
  return BadField(own.states,
                  absl::StrCat("must have as many rows as ", other.states, " or ", other.text,
                               ", which has ", chunks * tokens, "; has ", row.chunks * tokens));
}

}  // namespace

absl::Status CheckBesideEmbeds(const PictureSpec& spec, const Inputs& inputs) {
  std::vector<FieldViolation> found;
  FindClashes(kPromptNames, inputs.prompt, !spec.prompt.empty(),
              !spec.prompt_2.value_or("").empty(), found);
  FindClashes(kNegativeNames, inputs.negative, spec.negative_prompt.has_value(),
              !spec.negative_prompt_2.value_or("").empty(), found);
  if (spec.refine && (inputs.prompt.given() || inputs.negative.given())) {
    found.push_back({"refine",
                     "the refiner reads other embeddings than the base, which a request cannot "
                     "bring as well: set prompt in their place"});
  }
  return found.empty() ? absl::OkStatus() : InvalidFields(found);
}

absl::Status CheckEmbeds(const LoadedModel& model, const Inputs& inputs) {
  RETURN_IF_ERROR(CheckSide(kPromptNames, model, inputs.prompt));
  return CheckSide(kNegativeNames, model, inputs.negative);
}

absl::Status PlanChunks(const Inputs& inputs, PlannedStage& stage) {
  const int64_t tokens = TokensOf(*stage.model);
  int chunks = 1;
  for (RowInputs& row : stage.prompts) {
    if (row.embeds != RowEmbeds::kNone) {
      const Embeds& embeds = row.embeds == RowEmbeds::kPrompt ? inputs.prompt : inputs.negative;
      row.chunks = static_cast<int>(RowsOf(*embeds.states) / tokens);
    }
    chunks = std::max(chunks, row.chunks);
  }
  for (RowInputs& row : stage.prompts) {
    if (row.embeds != RowEmbeds::kNone && row.chunks < chunks) {
      return TooShort(row, chunks, tokens);
    }
    families::PadChunks(stage.model->configs(), chunks, row);
  }
  return absl::OkStatus();
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  const size_t shown = std::min(shape.size(), kShownDims);
  return absl::StrCat("[", absl::StrJoin(shape.begin(), shape.begin() + shown, ", "),
                      shown < shape.size() ? ", ..." : "", "]");
}

absl::Status CheckNumbers(absl::string_view field, const HostTensor& tensor) {
  const int64_t elements = ElementsOf(tensor), bytes = elements * BytesOf(tensor.type);
  if (static_cast<int64_t>(tensor.data.size()) != bytes) {
    return BadField(
        field, absl::StrCat(ShapeText(tensor.shape), " of ", NameOf(tensor.type), " takes ", bytes,
                            " bytes of data, there are ", tensor.data.size()));
  }
  for (int64_t i = 0; i < elements; ++i) {
    const float value = ElementAt(tensor, i);
    if (std::isfinite(value)) continue;
    return BadField(field, absl::StrCat("all numbers must be finite, number ", i, " is ", value));
  }
  return absl::OkStatus();
}

int64_t ElementsOf(const HostTensor& tensor) {
  int64_t elements = 1;
  for (const int64_t side : tensor.shape) elements *= side;
  return elements;
}

void Widen(const HostTensor& tensor, int64_t begin, absl::Span<float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = ElementAt(tensor, begin + static_cast<int64_t>(i));
  }
}

}  // namespace latentd::pipeline
