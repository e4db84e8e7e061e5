#include "core/pipeline/units/conditioning.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/families/family/clip_text.h"
#include "core/pipeline/lanes/pinned.h"
#include "core/pipeline/plan/embeds.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;
using families::EmphasisOrigin;
using families::HostInput;
using families::RowEmbeds;
using families::RowInputs;
using families::TextChunk;
using families::TextInputs;
using families::TextRun;

// The pooled state, as an output of a text graph and an input of the request graph.
constexpr char kPooled[] = "text_embeds";

// The graphs of a stage, and where they are enqueued.
struct StageGraphs {
  const Stage& stage;
  const Inputs* inputs;
  device::Stream& stream;
  PendingWork& work;

  device::Device& device() const { return stage.device(); }
  // Port of the request part; null: it reads nothing of that name.
  const backends::Port* InputPort(absl::string_view name) const {
    const auto& ports = stage.request_part->inputs();
    const auto port =
        absl::c_find_if(ports, [&](const backends::Port& one) { return one.name == name; });
    return port == ports.end() ? nullptr : &*port;
  }
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

// `ports` may have outputs, which are written there.
absl::StatusOr<NamedBuffers> EncodeOne(const StageGraphs& to,
                                       const std::vector<ExecutablePointer>& encoders, size_t index,
                                       const TextRun& run, NamedBuffers ports) {
  const LoadedModel& model = to.stage.model;
  RETURN_IF_ERROR(AddInputs(to, run, ports));
  ASSIGN_OR_RETURN(NamedBuffers outputs, EnqueueGraph(encoders[index], ports,
                                                      /*to_host=*/{"finite"}, to.stream, to.work));
  const auto finite = outputs.extract("finite");
  to.work.flags.push_back(
      {finite.mapped(), "encoded prompt",
       absl::StrCat("the ", model.row().name, "'s ", model.text_encoders()[index].component)});
  return outputs;
}

// Runs an encoder for all chunks of a row's prompts.
class ChunkEncoder {
 public:
  ChunkEncoder(const StageGraphs& to, size_t index, int chunks)
      : to_(to),
        index_(index),
        chunks_(chunks),
        component_(to.stage.model.text_encoders()[index].component),
        state_name_(families::HiddenStatesInput(component_)) {}

  absl::Status Encode(const TextInputs& text, EncodedPrompt& encoded) {
    ASSIGN_OR_RETURN(Buffer states, Allocate(chunks_));
    for (int i = chunks_; i-- > 0;) {
      // The pooled state is the first chunk's.
      ASSIGN_OR_RETURN(NamedBuffers outputs, EncodeChunk(text.chunks[i], states.Rows(i, i + 1)));
      if (i == 0) encoded.merge(outputs);
    }
    ASSIGN_OR_RETURN(const Buffer origins, OriginsOf(text, states));
    Add(states, origins, encoded);
    return absl::OkStatus();
  }

 private:
  // Leaves the state, with its blends, in `state`, and returns the other outputs. A blend's run
  // reads one of two buffers and writes the other.
  absl::StatusOr<NamedBuffers> EncodeChunk(const TextChunk& chunk, const Buffer& state) {
    if (!chunk.blends.empty() && !spare_.has_memory()) {
      ASSIGN_OR_RETURN(spare_, Allocate(/*chunks=*/1));
    }
    size_t left = chunk.blends.size();
    const auto target = [&] { return left % 2 == 0 ? state : spare_; };
    ASSIGN_OR_RETURN(NamedBuffers outputs,
                     EncodeOne(to_, to_.stage.text, index_, chunk.run, {{state_name_, target()}}));
    outputs.erase(state_name_);
    for (const prompts::Blend& blend : chunk.blends) {
      const Buffer before = target();
      --left;
      RETURN_IF_ERROR(EncodeOne(to_, to_.stage.masked_text, index_,
                                families::BlendRun(chunk, blend),
                                {{families::kBlendedState, before}, {state_name_, target()}})
                          .status());
    }
    return outputs;
  }

  // [chunks, tokens, features] of 0.
  absl::StatusOr<Buffer> Allocate(int chunks) const {
    const auto& outputs = to_.stage.text[index_]->outputs();
    const auto port = absl::c_find_if(
        outputs, [&](const backends::Port& output) { return output.name == state_name_; });
    return to_.device().Allocate(port->dtype, {chunks, port->shape[1], port->shape[2]},
                                 device::Place::kDevice);
  }

  // The states that weights move those of the chunks away from: `states` where there are none.
  absl::StatusOr<Buffer> OriginsOf(const TextInputs& text, const Buffer& states) const {
    const auto has = [&](EmphasisOrigin origin) {
      return absl::c_any_of(text.chunks,
                            [&](const TextChunk& chunk) { return chunk.origin == origin; });
    };
    if (!has(EmphasisOrigin::kZeros) && !has(EmphasisOrigin::kEmpty)) return states;
    ASSIGN_OR_RETURN(Buffer origins, Allocate(chunks_));
    if (!has(EmphasisOrigin::kEmpty)) return origins;
    const Buffer first = origins.Rows(0, 1);
    RETURN_IF_ERROR(
        EncodeOne(to_, to_.stage.text, index_, text.empty, {{state_name_, first}}).status());
    for (int i = 1; i < chunks_; ++i) {
      RETURN_IF_ERROR(to_.device().Copy(first, origins.Rows(i, i + 1), to_.stream));
    }
    return origins;
  }

  void Add(const Buffer& states, const Buffer& origins, EncodedPrompt& encoded) const {
    const device::Shape& shape = states.shape();
    const device::Shape joined = {1, shape[0] * shape[1], shape[2]};
    encoded[state_name_] = states.Reshaped(joined);
    encoded[families::EmphasisOriginInput(component_)] = origins.Reshaped(joined);
  }

  const StageGraphs& to_;
  const size_t index_;
  const int chunks_;
  const std::string& component_;
  const std::string state_name_;
  Buffer spare_;  // holds one chunk's state, or nothing
};

// States in place of those that runs would give, with no weights.
void AddStates(const TextEncoder& encoder, const Buffer& states, EncodedPrompt& encoded) {
  encoded[families::HiddenStatesInput(encoder.component)] = states;
  encoded[families::EmphasisOriginInput(encoder.component)] = states;
}

// Zeros in place of all that runs would give.
absl::StatusOr<EncodedPrompt> Zeros(const StageGraphs& to) {
  EncodedPrompt encoded;
  const auto allocate = [&](const backends::Port& port) {
    return to.device().Allocate(port.dtype, port.shape, device::Place::kDevice);
  };
  for (const TextEncoder& encoder : to.stage.model.text_encoders()) {
    const backends::Port* port = to.InputPort(families::HiddenStatesInput(encoder.component));
    if (port == nullptr) continue;
    ASSIGN_OR_RETURN(const Buffer states, allocate(*port));
    AddStates(encoder, states, encoded);
  }
  if (const backends::Port* port = to.InputPort(kPooled)) {
    ASSIGN_OR_RETURN(encoded[kPooled], allocate(*port));
  }
  return encoded;
}

// Columns [begin, begin + width) of `rows` rows, widened, for the device.
absl::StatusOr<Buffer> PinnedColumns(const StageGraphs& to, const HostTensor& tensor, int64_t begin,
                                     int64_t width) {
  const int64_t stride = tensor.shape.back();
  const int64_t rows = ElementsOf(tensor) / stride;
  ASSIGN_OR_RETURN(Buffer columns,
                   to.device().Allocate(DType::kF32, {1, rows, width}, device::Place::kPinned));
  const absl::Span<float> values = columns.as<float>();
  for (int64_t row = 0; row < rows; ++row) {
    Widen(tensor, row * stride + begin,
          values.subspan(static_cast<size_t>(row * width), static_cast<size_t>(width)));
  }
  return columns;
}

// Embeddings of the request in place of all that runs would give: each encoder's columns.
absl::StatusOr<EncodedPrompt> Given(const StageGraphs& to, const Embeds& embeds) {
  EncodedPrompt encoded;
  int64_t begin = 0;
  for (const TextEncoder& encoder : to.stage.model.text_encoders()) {
    const int64_t width = encoder.config.hidden_size;
    ASSIGN_OR_RETURN(const Buffer pinned, PinnedColumns(to, *embeds.states, begin, width));
    // Two ports read them: of memory of the host each would get a copy of its own.
    ASSIGN_OR_RETURN(const Buffer states,
                     to.device().Allocate(DType::kF32, pinned.shape(), device::Place::kDevice));
    RETURN_IF_ERROR(to.device().Copy(pinned, states, to.stream));
    AddStates(encoder, states, encoded);
    begin += width;
  }
  if (embeds.pooled) {
    ASSIGN_OR_RETURN(encoded[kPooled],
                     PinnedColumns(to, *embeds.pooled, 0, embeds.pooled->shape.back()));
  }
  return encoded;
}

absl::StatusOr<EncodedPrompt> Encode(const StageGraphs& to, const RowInputs& row) {
  if (row.embeds == RowEmbeds::kPrompt) return Given(to, to.inputs->prompt);
  if (row.embeds == RowEmbeds::kNegative) return Given(to, to.inputs->negative);
  if (row.text.empty()) return Zeros(to);
  EncodedPrompt encoded;
  // The last one is the largest: while the device is at it, the host prepares the others' runs.
  for (size_t i = to.stage.text.size(); i-- > 0;) {
    ChunkEncoder encoder(to, i, row.chunks);
    RETURN_IF_ERROR(encoder.Encode(row.text[i], encoded));
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

// Copies to memory of the host.
absl::StatusOr<EncodedPrompt> OnHost(const StageGraphs& to, const EncodedPrompt& encoded) {
  EncodedPrompt read;
  for (const TextEncoder& encoder : to.stage.model.text_encoders()) {
    const std::string states = families::HiddenStatesInput(encoder.component);
    const std::string origins = families::EmphasisOriginInput(encoder.component);
    const bool weighs = encoded.at(origins).data() != encoded.at(states).data();
    read[states] = encoded.at(states);
    if (weighs) read[origins] = encoded.at(origins);
  }
  if (const auto pooled = encoded.find(kPooled); pooled != encoded.end()) read.insert(*pooled);
  for (auto& [name, buffer] : read) {
    ASSIGN_OR_RETURN(const Buffer pinned,
                     to.device().Allocate(buffer.dtype(), buffer.shape(), device::Place::kPinned));
    RETURN_IF_ERROR(to.device().Copy(buffer, pinned, to.stream));
    buffer = pinned;
  }
  return read;
}

// One row of a request graph's packed results, into those of all rows.
absl::Status EnqueueRequestPart(const StageGraphs& to, const ExecutablePointer& request_part,
                                NamedBuffers ports, int64_t row, const NamedBuffers& rows) {
  for (const auto& [name, packed] : rows) ports[name] = packed.Rows(row, row + 1);
  return EnqueueGraph(request_part, ports, /*to_host=*/{}, to.stream, to.work).status();
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

absl::StatusOr<std::vector<EncodedPrompt>> EncodePrompts(const Stage& stage, const Inputs* inputs,
                                                         device::Stream& stream,
                                                         PendingWork& work) {
  return EncodeRows({stage, inputs, stream, work}, stage.planned.prompts);
}

absl::StatusOr<std::vector<EncodedPrompt>> EncodeToHost(const Stage& stage, device::Stream& stream,
                                                        PendingWork& work) {
  const StageGraphs to = {stage, /*inputs=*/nullptr, stream, work};
  std::vector<EncodedPrompt> rows;
  for (const RowInputs& row : stage.planned.prompts) {
    rows.emplace_back();
    if (row.text.empty()) continue;
    ASSIGN_OR_RETURN(const EncodedPrompt encoded, Encode(to, row));
    ASSIGN_OR_RETURN(rows.back(), OnHost(to, encoded));
  }
  return rows;
}

absl::StatusOr<NamedBuffers> MakeConditioning(const Stage& stage, const Inputs* inputs,
                                              device::Stream& stream, PendingWork& work,
                                              absl::Span<RequestControl> controls) {
  const StageGraphs to = {stage, inputs, stream, work};
  const std::vector<RowInputs>& rows = stage.planned.prompts;
  ASSIGN_OR_RETURN(std::vector<EncodedPrompt> text, EncodeRows(to, rows));
  const auto count = static_cast<int64_t>(rows.size());
  ASSIGN_OR_RETURN(NamedBuffers packed, AllocateRows(*stage.request_part, count));
  for (RequestControl& control : controls) {
    ASSIGN_OR_RETURN(control.conditioning, AllocateRows(*control.request_part, count));
  }
  for (int64_t i = 0; i < count; ++i) {
    NamedBuffers ports = std::move(text[i]);
    RETURN_IF_ERROR(AddInputs(to, rows[i].request, ports));
    for (const RequestControl& control : controls) {
      RETURN_IF_ERROR(
          EnqueueRequestPart(to, control.request_part, ports, i, *control.conditioning));
    }
    RETURN_IF_ERROR(EnqueueRequestPart(to, stage.request_part, std::move(ports), i, packed));
  }
  return packed;
}

}  // namespace latentd::pipeline
