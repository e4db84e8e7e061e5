#include "core/pipeline/units/conditioning.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/families/family/clip_text.h"
#include "core/pipeline/lanes/pinned.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;
using families::EmphasisOrigin;
using families::HostInput;
using families::RowInputs;
using families::TextInputs;
using families::TextRun;

// The graphs of a stage, and where they are enqueued.
struct StageGraphs {
  const Stage& stage;
  device::Stream& stream;
  PendingWork& work;

  device::Device& device() const { return stage.device(); }
};

absl::Status AddInputs(const StageGraphs& to, const std::vector<HostInput>& inputs,
                       NamedBuffers& ports) {
  for (const HostInput& input : inputs) {
    const auto pin = [&]<typename T>(const std::vector<T>& values) {
      constexpr DType kType = std::is_same_v<T, float> ? DType::kF32 : DType::kI64;
      return Pinned(to.device(), kType, {static_cast<int64_t>(values.size())},
                    absl::MakeConstSpan(values));
    };
    ASSIGN_OR_RETURN(ports[input.name], std::visit(pin, input.values));
  }
  return absl::OkStatus();
}

absl::StatusOr<EncodedPrompt> EncodeOne(const StageGraphs& to, size_t index, const TextRun& run) {
  const LoadedModel& model = to.stage.model;
  NamedBuffers ports;
  RETURN_IF_ERROR(AddInputs(to, run, ports));
  ASSIGN_OR_RETURN(NamedBuffers outputs, EnqueueGraph(to.stage.text[index], ports,
                                                      /*to_host=*/{"finite"}, to.stream, to.work));
  const auto finite = outputs.extract("finite");
  to.work.flags.push_back(
      {finite.mapped(), "encoded prompt",
       absl::StrCat("the ", model.row().name, "'s ", model.text_encoders()[index].component)});
  return outputs;
}

// The state that weights move the prompt's away from.
absl::StatusOr<Buffer> OriginOf(const StageGraphs& to, size_t index, const TextInputs& text,
                                const std::string& state, const EncodedPrompt& prompt) {
  switch (text.origin) {
    case EmphasisOrigin::kPrompt:
      break;
    case EmphasisOrigin::kZeros:
      return to.device().Allocate(DType::kF32, prompt.at(state).shape(), device::Place::kDevice);
    case EmphasisOrigin::kEmpty: {
      ASSIGN_OR_RETURN(const EncodedPrompt empty, EncodeOne(to, index, text.empty));
      return empty.at(state);
    }
  }
  return prompt.at(state);
}

// Zeros in place of all that the stage's text graphs would give.
absl::StatusOr<EncodedPrompt> Zeros(const Stage& stage) {
  EncodedPrompt zeros;
  for (const ExecutablePointer& text : stage.text) {
    for (const backends::Port& port : text->outputs()) {
      ASSIGN_OR_RETURN(zeros[port.name],
                       stage.device().Allocate(port.dtype, port.shape, device::Place::kDevice));
    }
  }
  zeros.erase("finite");
  return zeros;
}

absl::StatusOr<EncodedPrompt> Encode(const StageGraphs& to, const RowInputs& row) {
  const std::vector<families::TextEncoder>& encoders = to.stage.model.text_encoders();
  EncodedPrompt encoded;
  if (row.text.empty()) {
    ASSIGN_OR_RETURN(encoded, Zeros(to.stage));
  }
  // The last one is the largest: while the device is at it, the host prepares the others' runs.
  for (size_t i = encoders.size(); i-- > 0;) {
    const std::string state = families::HiddenStatesInput(encoders[i].component);
    Buffer& origin = encoded[families::EmphasisOriginInput(encoders[i].component)];
    if (row.text.empty()) {
      origin = encoded.at(state);
      continue;
    }
    ASSIGN_OR_RETURN(EncodedPrompt prompt, EncodeOne(to, i, row.text[i].prompt));
    ASSIGN_OR_RETURN(origin, OriginOf(to, i, row.text[i], state, prompt));
    encoded.merge(prompt);
  }
  return encoded;
}

absl::StatusOr<std::vector<EncodedPrompt>> EncodeRows(const StageGraphs& to,
                                                      const std::vector<RowInputs>& rows) {
  std::vector<EncodedPrompt> encoded(rows.size());
  for (size_t i = rows.size(); i-- > 0;) {
    ASSIGN_OR_RETURN(encoded[i], Encode(to, rows[i]));
  }
  return encoded;
}

// One row of the request graph's packed results, into those of all rows.
absl::Status EnqueueRequestPart(const StageGraphs& to, EncodedPrompt text, const RowInputs& inputs,
                                int64_t row, const NamedBuffers& rows) {
  NamedBuffers ports = std::move(text);
  RETURN_IF_ERROR(AddInputs(to, inputs.request, ports));
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

absl::StatusOr<std::vector<EncodedPrompt>> EncodePrompts(const Stage& stage, device::Stream& stream,
                                                         PendingWork& work) {
  return EncodeRows({stage, stream, work}, stage.planned.prompts);
}

absl::StatusOr<NamedBuffers> MakeConditioning(const Stage& stage, device::Stream& stream,
                                              PendingWork& work) {
  const StageGraphs to = {stage, stream, work};
  const std::vector<RowInputs>& rows = stage.planned.prompts;
  ASSIGN_OR_RETURN(std::vector<EncodedPrompt> text, EncodeRows(to, rows));
  const auto count = static_cast<int64_t>(rows.size());
  ASSIGN_OR_RETURN(NamedBuffers packed, AllocateRows(*stage.request_part, count));
  for (int64_t i = 0; i < count; ++i) {
    RETURN_IF_ERROR(EnqueueRequestPart(to, std::move(text[i]), rows[i], i, packed));
  }
  return packed;
}

}  // namespace latentd::pipeline
