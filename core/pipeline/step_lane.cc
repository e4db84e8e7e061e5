#include "core/pipeline/step_lane.h"

#include <algorithm>
#include <utility>

#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/pipeline/pinned.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;
using device::Place;
using device::Shape;

Buffer RowOf(const Buffer& memory, int row) { return memory.Rows(row, row + 1); }

// x (0) or h1 to h3 of a row's state [1, 4, N], as [1, N].
Buffer PartOf(const Buffer& state, int index) {
  return RowOf(state.Reshaped({state.shape()[1], state.shape()[2]}), index);
}

Buffer LatentsIn(const Buffer& state) { return PartOf(state, 0); }

// The same memory, which its owner keeps.
Buffer BytesOf(const Buffer& memory) {
  return Buffer::Wrap(memory.data(), DType::kU8, Shape{static_cast<int64_t>(memory.bytes())},
                      nullptr, memory.place());
}

template <typename T>
constexpr DType kDTypeOf = DType::kF32;
template <>
constexpr DType kDTypeOf<int64_t> = DType::kI64;

}  // namespace

LanePlace::~LanePlace() {
  if (lane_ != nullptr) lane_->assignment_.Free(member_);
}

void StepLane::Add(const Executables& executables) {
  for (const auto& [rows, executable] : executables) {
    if (rows > rows_) continue;
    executables_.emplace(rows, executable);
    assignment_.AddCount(rows);
  }
}

int StepLane::rows_taken() const { return assignment_.taken(); }

int StepLane::capacity() const { return assignment_.capacity(); }

bool StepLane::Rests(const LanePlace& place) const { return assignment_.Rests(place.member_); }

StepLane::Rows StepLane::RowsOf(const LanePlace& place) const {
  return assignment_.RowsOf(place.member_);
}

int StepLane::RowCount(const LanePlace& place) const {
  return static_cast<int>(RowsOf(place).size());
}

absl::StatusOr<std::optional<LanePlace>> StepLane::Join(const LaneRows& picture,
                                                        device::Stream& stream) {
  const auto member = assignment_.Take(picture.rows, picture.most_rows);
  if (!member) return std::nullopt;
  LanePlace place(shared_from_this(), *member);
  const int rows = assignment_.CountFor(rows_taken());
  const absl::Status bound = CatchOutOfMemory([&] { return GraphFor(rows).status(); });
  if (absl::IsResourceExhausted(bound) && assignment_.LeaveOut(rows)) return std::nullopt;
  RETURN_IF_ERROR(bound);
  RETURN_IF_ERROR(CopyTo(RowsOf(place), picture, stream));
  return std::optional<LanePlace>(std::move(place));
}

// All of its rows have the same state.
absl::Status StepLane::SetRows(const LanePlace& place, const LaneRows& picture,
                               device::Stream& stream) {
  const Rows before = RowsOf(place);
  const int count = static_cast<int>(before.size());
  // First, so that a failure leaves nothing for the others' step. Where there is no memory for so
  // many rows, some pictures rest.
  RETURN_IF_ERROR(BindFor(rows_taken() + picture.rows - count));
  assignment_.Change(place.member_, picture.rows, picture.most_rows);
  const Rows rows = RowsOf(place);
  if (picture.rows > count) {
    RETURN_IF_ERROR(MoveRow({before.back(), rows.front()}, stream));
    RETURN_IF_ERROR(CopyRequest(rows, picture, stream));
  }
  RETURN_IF_ERROR(CopyGuidance(rows, picture, stream));
  return CopyIndices(rows, stream);
}

// Binds what a step of so many rows runs, unless some of them rest anyway.
absl::Status StepLane::BindFor(int taken) {
  if (taken > capacity()) return absl::OkStatus();
  const int rows = assignment_.CountFor(taken);
  const absl::Status bound = CatchOutOfMemory([&] { return GraphFor(rows).status(); });
  return absl::IsResourceExhausted(bound) && assignment_.LeaveOut(rows) ? absl::OkStatus() : bound;
}

absl::Status StepLane::CopyTo(const Rows& rows, const LaneRows& picture, device::Stream& stream) {
  RETURN_IF_ERROR(CopyGuidance(rows, picture, stream));
  RETURN_IF_ERROR(Fill("step", rows, int64_t{0}, stream));
  RETURN_IF_ERROR(CopyIndices(rows, stream));
  RETURN_IF_ERROR(CopySchedule(rows, picture, stream));
  const Buffer& state = memory_.at("state");
  for (int row : rows) {
    RETURN_IF_ERROR(device_.Copy(zeros_, RowOf(state, row), stream));
    RETURN_IF_ERROR(device_.Copy(picture.latents, LatentsIn(RowOf(state, row)), stream));
  }
  return CopyRequest(rows, picture, stream);
}

absl::Status StepLane::CopyGuidance(const Rows& rows, const LaneRows& picture,
                                    device::Stream& stream) {
  RETURN_IF_ERROR(Fill("guidance_scale", rows, picture.guidance_scale, stream));
  return Fill("guidance_rescale", rows, picture.guidance_rescale, stream);
}

absl::Status StepLane::CopyRequest(const Rows& rows, const LaneRows& picture,
                                   device::Stream& stream) {
  for (const auto& [name, packed] : picture.request) {
    const auto first = static_cast<size_t>(packed.shape()[0]) - rows.size();
    for (size_t i = 0; i < rows.size(); ++i) {
      const Buffer from = RowOf(packed, static_cast<int>(first + i));
      RETURN_IF_ERROR(device_.Copy(from, RowOf(memory_.at(name), rows[i]), stream));
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status StepLane::Fill(const char* name, const Rows& rows, T value, device::Stream& stream) {
  ASSIGN_OR_RETURN(const Buffer from,
                   Pinned(device_, kDTypeOf<T>, {1}, absl::MakeConstSpan(&value, 1)));
  for (int row : rows) {
    RETURN_IF_ERROR(device_.Copy(from, RowOf(memory_.at(name), row), stream));
  }
  return absl::OkStatus();
}

absl::Status StepLane::CopyIndices(const Rows& rows, device::Stream& stream) {
  RETURN_IF_ERROR(Fill("negative_rows", rows, int64_t{rows.front()}, stream));
  return Fill("text_rows", rows, int64_t{rows.back()}, stream);
}

absl::Status StepLane::CopySchedule(const Rows& rows, const LaneRows& picture,
                                    device::Stream& stream) {
  const Buffer& tables = memory_.at("table");
  ASSIGN_OR_RETURN(const Buffer table,
                   device_.Allocate(DType::kF32, RowOf(tables, 0).shape(), Place::kPinned));
  schedulers::WriteTable(*picture.schedule, table.as<float>());
  for (int row : rows) RETURN_IF_ERROR(device_.Copy(table, RowOf(tables, row), stream));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const device::Event>> StepLane::DrawNoise(
    absl::Span<const Draw> draws, device::Stream& stream) {
  Staging& drawn = noise_[draws_++ % noise_.size()];
  if (drawn.copied != nullptr) RETURN_IF_ERROR(drawn.copied->Wait());
  for (const Draw& draw : draws) {
    if (!assignment_.TakeNoise(draw.place->member_)) continue;
    const Rows rows = RowsOf(*draw.place);
    const Buffer from = RowOf(drawn.memory, rows.front());
    draw.generator->Fill(from);
    for (int row : rows) {
      RETURN_IF_ERROR(device_.Copy(from, RowOf(memory_.at("noise"), row), stream));
    }
  }
  ASSIGN_OR_RETURN(drawn.copied, stream.Record());
  return drawn.copied;
}

absl::Status StepLane::MoveRow(const RowAssignment::Move& move, device::Stream& stream) {
  for (const auto& [name, memory] : memory_) {
    const Buffer from = RowOf(memory, move.from), to = RowOf(memory, move.to);
    RETURN_IF_ERROR(move.back ? Swap(from, to, stream) : device_.Copy(from, to, stream));
  }
  return absl::OkStatus();
}

// In parts as large as the memory that is kept for it: rows change places when there is no more.
absl::Status StepLane::Swap(const Buffer& one, const Buffer& other, device::Stream& stream) {
  const Buffer first = BytesOf(one), second = BytesOf(other);
  for (int64_t begin = 0; begin < first.elements(); begin += spare_.elements()) {
    const int64_t end = std::min(first.elements(), begin + spare_.elements());
    const Buffer kept = spare_.Rows(0, end - begin);
    RETURN_IF_ERROR(device_.Copy(second.Rows(begin, end), kept, stream));
    RETURN_IF_ERROR(device_.Copy(first.Rows(begin, end), second.Rows(begin, end), stream));
    RETURN_IF_ERROR(device_.Copy(kept, first.Rows(begin, end), stream));
  }
  return absl::OkStatus();
}

absl::StatusOr<StepLane::LaneGraph*> StepLane::GraphFor(int rows) {
  const auto found = graphs_.find(rows);
  if (found != graphs_.end()) return &found->second;
  backends::NamedBuffers prefix;
  for (const auto& [name, memory] : memory_) prefix[name] = memory.Rows(0, rows);
  ASSIGN_OR_RETURN(backends::BoundGraph graph,
                   backends::BoundGraph::Create(executables_.at(rows), prefix));
  return &graphs_.emplace(rows, LaneGraph{std::move(graph)}).first->second;
}

absl::Status StepLane::Enqueue(int rows, device::Stream& stream, bool& first_run) {
  ASSIGN_OR_RETURN(LaneGraph * bound, CatchOutOfMemory([&] { return GraphFor(rows); }));
  first_run = !std::exchange(bound->has_run, true);
  return bound->graph.Enqueue(stream);
}

absl::StatusOr<StepLane::Evaluation> StepLane::Step(device::Stream& stream,
                                                    const Members& members) {
  absl::InlinedVector<RowAssignment::Member, batching::kMostRows> wanted;
  for (const LanePlace* place : members) wanted.push_back(place->member_);
  Evaluation evaluation;
  do {
    const RowAssignment::Plan plan = assignment_.PlanStep(wanted);
    for (const RowAssignment::Move& move : plan.moves) RETURN_IF_ERROR(MoveRow(move, stream));
    for (const Rows& rows : plan.moved) RETURN_IF_ERROR(CopyIndices(rows, stream));
    evaluation.status = Enqueue(plan.rows, stream, evaluation.first_run);
    evaluation.rows = plan.taken;
    evaluation.computed_rows = plan.rows;
  } while (absl::IsResourceExhausted(evaluation.status) &&
           assignment_.LeaveOut(evaluation.computed_rows));
  evaluation.too_many_rows = assignment_.NoteStep(evaluation.status.ok());
  if (!evaluation.status.ok()) evaluation.computed_rows = 0;
  return evaluation;
}

absl::Status StepLane::ReadState(const LanePlace& place, int index, const Buffer& latents,
                                 device::Stream& stream) const {
  const Buffer row = RowOf(memory_.at("state"), RowsOf(place).front());
  return device_.Copy(PartOf(row, index), latents, stream);
}

absl::Status StepLane::ReadNoise(const LanePlace& place, const Buffer& latents,
                                 device::Stream& stream) const {
  return device_.Copy(RowOf(memory_.at("noise"), RowsOf(place).front()), latents, stream);
}

absl::Status StepLane::Read(const LanePlace& place, const Buffer& latents, const Buffer& finite,
                            device::Stream& stream) const {
  RETURN_IF_ERROR(ReadState(place, /*index=*/0, latents, stream));
  return device_.Copy(RowOf(memory_.at("finite"), RowsOf(place).back()), finite, stream);
}

}  // namespace latentd::pipeline
