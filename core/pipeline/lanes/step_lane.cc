#include "core/pipeline/lanes/step_lane.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/graph/low_rank_paths.h"
#include "core/pipeline/graphs/control_graph.h"
#include "core/pipeline/lanes/pinned.h"

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

// The same memory, which its owner keeps.
Buffer BytesOf(const Buffer& memory) {
  return Buffer::Wrap(memory.data(), DType::kU8, Shape{static_cast<int64_t>(memory.bytes())},
                      nullptr, memory.place());
}

size_t IndexOf(Depth depth) { return static_cast<size_t>(depth); }

template <typename T>
constexpr DType kDTypeOf = DType::kF32;
template <>
constexpr DType kDTypeOf<int64_t> = DType::kI64;

}  // namespace

LanePlace::~LanePlace() {
  if (lane_ != nullptr) lane_->assignment_.Free(member_);
}

void StepLane::Add(const Executables& executables, const Executables& shallow) {
  for (const auto& [rows, executable] : executables) {
    if (rows > rows_) continue;
    executables_[IndexOf(Depth::kFull)].emplace(rows, executable);
    const auto reads = shallow.find(rows);
    if (reads != shallow.end()) executables_[IndexOf(Depth::kShallow)].insert(*reads);
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
  const absl::Status bound = Bind(rows);
  if (absl::IsResourceExhausted(bound) && assignment_.LeaveOut(rows)) return std::nullopt;
  RETURN_IF_ERROR(bound);
  const Rows own = RowsOf(place);
  for (const LanePort& port : ports_) RETURN_IF_ERROR(CopyTo(port, own, picture, stream));
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
  }
  for (const LanePort& port : ports_) {
    const bool changes = port.rate == PortRate::kStep || picture.rows > count;
    if (port.role != PortRole::kValue || !changes) continue;
    RETURN_IF_ERROR(CopyValue(port, rows, picture, stream));
  }
  return CopyMembers(rows, stream);
}

// Binds what a step of so many rows runs, unless some of them rest anyway.
absl::Status StepLane::BindFor(int taken) {
  if (taken > capacity()) return absl::OkStatus();
  const int rows = assignment_.CountFor(taken);
  const absl::Status bound = Bind(rows);
  return absl::IsResourceExhausted(bound) && assignment_.LeaveOut(rows) ? absl::OkStatus() : bound;
}

const Buffer& StepLane::MemoryOf(PortRole role) const {
  return absl::c_find_if(ports_, [&](const LanePort& port) { return port.role == role; })->memory;
}

absl::Status StepLane::CopyTo(const LanePort& port, const Rows& rows, const LaneRows& picture,
                              device::Stream& stream) {
  switch (port.role) {
    case PortRole::kNoise:
    case PortRole::kFinite:
    case PortRole::kContrast:
    case PortRole::kDeep:
      return absl::OkStatus();  // written before they are read
    case PortRole::kPool:
      return absl::OkStatus();  // no row's
    case PortRole::kState:
      return CopyState(port.memory, rows, picture, stream);
    case PortRole::kStep:
      return Fill(port.memory, rows, int64_t{0}, stream);
    case PortRole::kTable:
      return CopySchedule(port.memory, rows, picture, stream);
    case PortRole::kMember:
      return CopyMember(port, rows, stream);
    case PortRole::kResidual:
      return Clear(port, rows, stream);
    case PortRole::kValue:
      break;
  }
  return CopyValue(port, rows, picture, stream);
}

absl::Status StepLane::CopyState(const Buffer& state, const Rows& rows, const LaneRows& picture,
                                 device::Stream& stream) {
  for (int row : rows) {
    RETURN_IF_ERROR(device_.Copy(zeros_, RowOf(state, row), stream));
    RETURN_IF_ERROR(device_.Copy(picture.latents, PartOf(RowOf(state, row), 0), stream));
  }
  return absl::OkStatus();
}

absl::Status StepLane::CopySchedule(const Buffer& tables, const Rows& rows, const LaneRows& picture,
                                    device::Stream& stream) {
  ASSIGN_OR_RETURN(const Buffer table,
                   device_.Allocate(DType::kF32, RowOf(tables, 0).shape(), Place::kPinned));
  schedulers::WriteTable(*picture.schedule, table.as<float>());
  for (int row : rows) RETURN_IF_ERROR(device_.Copy(table, RowOf(tables, row), stream));
  return absl::OkStatus();
}

absl::Status StepLane::CopyValue(const LanePort& port, const Rows& rows, const LaneRows& picture,
                                 device::Stream& stream) {
  const auto given = absl::c_find_if(
      picture.values, [&](const RowValue& value) { return value.name == port.name; });
  if (given == picture.values.end()) {
    return absl::InternalError(absl::StrCat("an image brings no ", port.name));
  }
  if (const float* number = std::get_if<float>(&given->value)) {
    return Fill(port.memory, rows, *number, stream);
  }
  const auto& values = std::get<Buffer>(given->value);
  const int before = static_cast<int>(values.shape()[0]) - static_cast<int>(rows.size());
  for (int i = 0; i < static_cast<int>(rows.size()); ++i) {
    const Buffer from = RowOf(values, std::max(before + i, 0));
    RETURN_IF_ERROR(device_.Copy(from, RowOf(port.memory, rows[i]), stream));
  }
  return absl::OkStatus();
}

absl::Status StepLane::Clear(const LanePort& port, const Rows& rows, device::Stream& stream) const {
  for (int row : rows) {
    const Buffer to = BytesOf(RowOf(port.memory, row));
    RETURN_IF_ERROR(device_.Copy(no_residual_.Rows(0, to.elements()), to, stream));
  }
  return absl::OkStatus();
}

absl::Status StepLane::CopyMember(const LanePort& port, const Rows& rows, device::Stream& stream) {
  const size_t member = std::min(static_cast<size_t>(port.member), rows.size() - 1);
  return Fill(port.memory, rows, int64_t{rows[member]}, stream);
}

absl::Status StepLane::CopyMembers(const Rows& rows, device::Stream& stream) {
  for (const LanePort& port : ports_) {
    if (port.role == PortRole::kMember) RETURN_IF_ERROR(CopyMember(port, rows, stream));
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status StepLane::Fill(const Buffer& port, const Rows& rows, T value, device::Stream& stream) {
  ASSIGN_OR_RETURN(const Buffer from,
                   Pinned(device_, kDTypeOf<T>, {1}, absl::MakeConstSpan(&value, 1)));
  for (int row : rows) RETURN_IF_ERROR(device_.Copy(from, RowOf(port, row), stream));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const device::Event>> StepLane::DrawNoise(
    absl::Span<const Draw> draws, device::Stream& stream) {
  Staging& drawn = noise_[draws_++ % noise_.size()];
  if (drawn.copied != nullptr) RETURN_IF_ERROR(drawn.copied->Wait());
  const Buffer& noise = MemoryOf(PortRole::kNoise);
  for (const Draw& draw : draws) {
    if (!assignment_.TakeNoise(draw.place->member_)) continue;
    const Rows rows = RowsOf(*draw.place);
    const Buffer from = RowOf(drawn.memory, rows.front());
    draw.generator->Fill(from);
    for (int row : rows) RETURN_IF_ERROR(device_.Copy(from, RowOf(noise, row), stream));
  }
  ASSIGN_OR_RETURN(drawn.copied, stream.Record());
  return drawn.copied;
}

absl::Status StepLane::MoveRow(const RowAssignment::Move& move, device::Stream& stream) {
  for (const LanePort& port : ports_) {
    const Buffer from = RowOf(port.memory, move.from), to = RowOf(port.memory, move.to);
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

absl::Status StepLane::Bind(int rows) {
  RETURN_IF_ERROR(GraphFor(rows, Depth::kFull).status());
  if (!executables_[IndexOf(Depth::kShallow)].contains(rows)) return absl::OkStatus();
  return GraphFor(rows, Depth::kShallow).status();
}

absl::StatusOr<StepLane::LaneGraph*> StepLane::GraphFor(int rows, Depth depth) {
  std::map<int, LaneGraph>& graphs = graphs_[IndexOf(depth)];
  const auto found = graphs.find(rows);
  if (found != graphs.end()) return &found->second;
  backends::NamedBuffers prefix;
  for (const LanePort& port : ports_) prefix[port.name] = port.memory.Rows(0, rows);
  if (paths_ != nullptr) prefix[graph::kPathsInput] = paths_->memory();
  ASSIGN_OR_RETURN(backends::BoundGraph graph,
                   backends::BoundGraph::Create(executables_[IndexOf(depth)].at(rows), prefix));
  return &graphs.emplace(rows, LaneGraph{std::move(graph)}).first->second;
}

absl::Status StepLane::Enqueue(int rows, Depth depth, device::Stream& stream, bool& first_run) {
  ASSIGN_OR_RETURN(LaneGraph * bound, GraphFor(rows, depth));
  first_run = !std::exchange(bound->has_run, true);
  return bound->graph.Enqueue(stream);
}

// A picture of two rows that steps alone has the first two of the lane.
bool StepLane::TrySplit(const Members& members, const RowAssignment::Plan& plan, const Split* split,
                        device::Stream& stream, Evaluation& evaluation) {
  const bool may_split = split != nullptr && evaluation.split.not_split.ok();
  if (!may_split || members.size() != 1 || plan.rows != 2 || plan.taken != 2) return false;
  const Rows rows = RowsOf(*members.front());
  if (rows.size() != 2) return false;
  const int first = rows[0] == 0 ? 0 : 1;
  evaluation.status = split_.Enqueue(*split, ports_, first, stream, evaluation.split);
  evaluation.is_split = evaluation.split.not_split.ok();
  evaluation.first_run = evaluation.split.first_run;
  return evaluation.is_split;
}

absl::StatusOr<StepLane::Evaluation> StepLane::Step(device::Stream& stream, const Members& members,
                                                    const Split* split, Depth depth) {
  absl::InlinedVector<RowAssignment::Member, batching::kMostRows> wanted;
  for (const LanePlace* place : members) wanted.push_back(place->member_);
  Evaluation evaluation;
  do {
    const RowAssignment::Plan plan = assignment_.PlanStep(wanted);
    for (const RowAssignment::Move& move : plan.moves) RETURN_IF_ERROR(MoveRow(move, stream));
    for (const Rows& rows : plan.moved) RETURN_IF_ERROR(CopyMembers(rows, stream));
    if (!TrySplit(members, plan, split, stream, evaluation)) {
      evaluation.status = Enqueue(plan.rows, depth, stream, evaluation.first_run);
    }
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
  const Buffer row = RowOf(MemoryOf(PortRole::kState), RowsOf(place).front());
  return device_.Copy(PartOf(row, index), latents, stream);
}

absl::Status StepLane::WriteLatents(const LanePlace& place, const device::ConstBuffer& latents,
                                    device::Stream& stream) {
  const Buffer& state = MemoryOf(PortRole::kState);
  for (int row : RowsOf(place)) {
    RETURN_IF_ERROR(device_.Copy(latents, PartOf(RowOf(state, row), 0), stream));
  }
  return absl::OkStatus();
}

absl::Status StepLane::WriteResiduals(const LanePlace& place,
                                      absl::Span<const device::Buffer> residuals,
                                      device::Stream& stream) const {
  const Rows rows = RowsOf(place);
  for (const LanePort& port : ports_) {
    if (port.role != PortRole::kResidual) continue;
    const size_t index = ResidualIndex(port.name);
    if (index >= residuals.size()) return absl::InternalError("a residual of a step is not given");
    const Buffer& from = residuals[index];
    for (int i = 0; i < static_cast<int>(rows.size()); ++i) {
      RETURN_IF_ERROR(device_.Copy(RowOf(from, i), RowOf(port.memory, rows[i]), stream));
    }
  }
  return absl::OkStatus();
}

absl::Status StepLane::ClearResiduals(const LanePlace& place, device::Stream& stream) const {
  for (const LanePort& port : ports_) {
    if (port.role == PortRole::kResidual) RETURN_IF_ERROR(Clear(port, RowsOf(place), stream));
  }
  return absl::OkStatus();
}

absl::Status StepLane::ReadContrast(const LanePlace& place, const Buffer& contrast,
                                    device::Stream& stream) const {
  const int row = RowsOf(place).back();
  return device_.Copy(RowOf(MemoryOf(PortRole::kContrast), row), contrast, stream);
}

absl::Status StepLane::ReadNoise(const LanePlace& place, const Buffer& latents,
                                 device::Stream& stream) const {
  return device_.Copy(RowOf(MemoryOf(PortRole::kNoise), RowsOf(place).front()), latents, stream);
}

absl::Status StepLane::Read(const LanePlace& place, const Buffer& latents, const Buffer& finite,
                            device::Stream& stream) const {
  RETURN_IF_ERROR(ReadState(place, /*index=*/0, latents, stream));
  return device_.Copy(RowOf(MemoryOf(PortRole::kFinite), RowsOf(place).back()), finite, stream);
}

}  // namespace latentd::pipeline
