#include "core/pipeline/step_lane.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/pipeline/limits.h"
#include "core/pipeline/pinned.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;
using device::Place;
using device::Shape;

constexpr size_t kNoiseBuffers = 2;
// Without the rows that there was no memory for. To try them takes about as long as a step.
constexpr int kStepsWithFewer = 64;

Shape WithRows(const Shape& shape, int64_t rows) {
  std::vector<int64_t> dims = shape.dims();
  dims[0] = rows;
  return Shape(std::move(dims));
}

Buffer RowOf(const Buffer& memory, int row) { return memory.Rows(row, row + 1); }

// x (0) or h1 to h3 of a row's state [1, 4, C, H, W], as [1, C, H, W].
Buffer PartOf(const Buffer& state, int index) {
  std::vector<int64_t> dims(state.shape().dims().begin() + 1, state.shape().dims().end());
  return RowOf(state.Reshaped(Shape(std::move(dims))), index);
}

Buffer LatentsIn(const Buffer& state) { return PartOf(state, 0); }

template <typename T>
constexpr DType kDTypeOf = DType::kF32;
template <>
constexpr DType kDTypeOf<int64_t> = DType::kI64;

}  // namespace

LanePlace::~LanePlace() {
  if (lane_ != nullptr) lane_->Free(member_);
}

absl::StatusOr<std::shared_ptr<StepLane>> StepLane::Create(const backends::Executable& any,
                                                           int rows) {
  std::shared_ptr<StepLane> lane(new StepLane(any.device(), rows));
  device::Device& device = lane->device_;
  for (const auto* ports : {&any.inputs(), &any.outputs()}) {
    for (const backends::Port& port : *ports) {
      if (port.updates >= 0) continue;
      ASSIGN_OR_RETURN(lane->memory_[port.name],
                       device.Allocate(port.dtype, WithRows(port.shape, rows), Place::kDevice));
    }
  }
  const Shape& noise = lane->memory_["noise"].shape();
  for (size_t i = 0; i < kNoiseBuffers; ++i) {
    ASSIGN_OR_RETURN(lane->noise_.emplace_back().memory,
                     device.Allocate(DType::kF32, noise, Place::kPinned));
  }
  ASSIGN_OR_RETURN(
      lane->zeros_,
      device.Allocate(DType::kF32, WithRows(lane->memory_["state"].shape(), 1), Place::kDevice));
  return lane;
}

int64_t StepLane::Bytes(const backends::Executable& any, int rows) {
  int64_t bytes = 0;
  for (const auto* ports : {&any.inputs(), &any.outputs()}) {
    for (const backends::Port& port : *ports) {
      if (port.updates >= 0) continue;
      const int64_t row = WithRows(port.shape, 1).elements() * device::SizeOf(port.dtype);
      bytes += rows * row;
      if (port.name == "noise") bytes += static_cast<int64_t>(kNoiseBuffers) * rows * row;
      if (port.name == "state") bytes += /*zeros*/ row;
    }
  }
  return bytes;
}

int64_t StepLane::Bytes(const StepShape& shape, int64_t channels, int64_t request_bytes) {
  constexpr int64_t kFloat = sizeof(float), kInteger = sizeof(int64_t);
  const int64_t latents = channels * shape.height * shape.width * kFloat;
  const int64_t table = kMaxEvaluations * static_cast<int64_t>(schedulers::kLineElements) * kFloat;
  const int64_t staging = static_cast<int64_t>(kNoiseBuffers) * latents;
  const int64_t row = (schedulers::kStateRows + 1) * latents + staging + table + request_bytes +
                      2 * kFloat + 3 * kInteger + /*finite*/ 1;
  return shape.rows * row + /*zeros*/ schedulers::kStateRows * latents;
}

int64_t StepLane::bytes() const {
  size_t bytes = 0;
  for (const auto& [name, memory] : memory_) bytes += memory.bytes();
  for (const Staging& noise : noise_) bytes += noise.memory.bytes();
  bytes += zeros_.bytes();
  return static_cast<int64_t>(bytes);
}

void StepLane::Add(const Executables& executables) {
  for (const auto& [rows, executable] : executables) {
    if (rows <= rows_) executables_.emplace(rows, executable);
  }
}

int StepLane::rows_taken() const {
  absl::MutexLock lock(&mutex_);
  size_t taken = 0;
  for (const auto& [id, member] : members_) taken += member.rows.size();
  return static_cast<int>(taken);
}

int StepLane::capacity() const {
  absl::MutexLock lock(&mutex_);
  return Capacity();
}

int StepLane::Capacity() const {
  const auto beyond = executables_.upper_bound(most_rows_);
  if (beyond != executables_.begin()) return std::prev(beyond)->first;
  return executables_.empty() ? 0 : executables_.begin()->first;
}

int StepLane::RowsFor(int taken) const { return executables_.lower_bound(taken)->first; }

bool StepLane::Rests(const LanePlace& place) const {
  absl::MutexLock lock(&mutex_);
  return members_.at(place.member_).rests;
}

void StepLane::Free(uint64_t member) {
  absl::MutexLock lock(&mutex_);
  members_.erase(member);
  if (members_.empty()) most_rows_ = kUnlimited;
}

StepLane::Rows StepLane::RowsOf(const LanePlace& place) const {
  absl::MutexLock lock(&mutex_);
  return members_.at(place.member_).rows;
}

int StepLane::RowCount(const LanePlace& place) const {
  return static_cast<int>(RowsOf(place).size());
}

std::vector<StepLane::Holder> StepLane::Holders() {
  std::vector<Holder> holders(rows_);
  for (auto& [id, member] : members_) {
    for (size_t i = 0; i < member.rows.size(); ++i) holders[member.rows[i]] = {&member, i};
  }
  return holders;
}

int StepLane::FreeRow() {
  const std::vector<Holder> holders = Holders();
  return static_cast<int>(std::find_if_not(holders.begin(), holders.end(), IsTaken) -
                          holders.begin());
}

std::optional<uint64_t> StepLane::TakeRows(const LaneRows& picture) {
  absl::MutexLock lock(&mutex_);
  int kept = std::max(picture.rows, picture.most_rows);
  for (const auto& [id, member] : members_) kept += member.kept;
  if (kept > Capacity()) return std::nullopt;
  const uint64_t id = next_member_++;
  Member& member = members_[id];
  member.kept = std::max(picture.rows, picture.most_rows);
  for (int i = 0; i < picture.rows; ++i) member.rows.push_back(FreeRow());
  return id;
}

void StepLane::ChangeRows(const LanePlace& place, const LaneRows& picture) {
  absl::MutexLock lock(&mutex_);
  Member& member = members_.at(place.member_);
  member.kept = std::max(picture.rows, picture.most_rows);
  if (picture.rows == 1) member.rows = {member.rows.back()};
  if (picture.rows > static_cast<int>(member.rows.size())) {
    member.rows.insert(member.rows.begin(), FreeRow());
  }
}

absl::StatusOr<std::optional<LanePlace>> StepLane::Join(const LaneRows& picture,
                                                        device::Stream& stream) {
  const std::optional<uint64_t> member = TakeRows(picture);
  if (!member) return std::nullopt;
  LanePlace place(shared_from_this(), *member);
  const int rows = RowsFor(rows_taken());
  const absl::Status bound = CatchOutOfMemory([&] { return GraphFor(rows).status(); });
  if (absl::IsResourceExhausted(bound) && LeaveOut(rows)) return std::nullopt;
  RETURN_IF_ERROR(bound);
  RETURN_IF_ERROR(CopyTo(RowsOf(place), picture, stream));
  return std::optional<LanePlace>(std::move(place));
}

// All of its rows have the same state.
absl::Status StepLane::SetRows(const LanePlace& place, const LaneRows& picture,
                               device::Stream& stream) {
  int count = 0, last = 0;
  {
    absl::MutexLock lock(&mutex_);
    const Rows& before = members_.at(place.member_).rows;
    count = static_cast<int>(before.size());
    last = before.back();
  }
  // First, so that a failure leaves nothing for the others' step.
  const int taken = rows_taken() + picture.rows - count;
  RETURN_IF_ERROR(GraphFor(executables_.lower_bound(taken)->first).status());
  ChangeRows(place, picture);
  const Rows rows = RowsOf(place);
  if (picture.rows > count) {
    RETURN_IF_ERROR(MoveRow({last, rows.front()}, stream));
    RETURN_IF_ERROR(CopyRequest(rows, picture, stream));
  }
  RETURN_IF_ERROR(CopyGuidance(rows, picture, stream));
  return CopyIndices(rows, stream);
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
                   device_.Allocate(DType::kF32, WithRows(tables.shape(), 1), Place::kPinned));
  schedulers::WriteTable(*picture.schedule, table.as<float>());
  for (int row : rows) RETURN_IF_ERROR(device_.Copy(table, RowOf(tables, row), stream));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const device::Event>> StepLane::DrawNoise(
    absl::Span<const Draw> draws, device::Stream& stream) {
  Staging& drawn = noise_[draws_++ % kNoiseBuffers];
  if (drawn.copied != nullptr) RETURN_IF_ERROR(drawn.copied->Wait());
  for (const Draw& draw : draws) {
    if (!WantsNoise(*draw.place)) continue;
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

// False: it rested, and has what was drawn then.
bool StepLane::WantsNoise(const LanePlace& place) {
  absl::MutexLock lock(&mutex_);
  return !std::exchange(members_.at(place.member_).has_noise, true);
}

// All of them, or as many as there is memory for: those in the first rows, as long as the others
// have room behind what is computed. One steps in any case.
void StepLane::Choose(Plan& plan) {
  std::vector<Member*> members;
  int taken = 0;
  for (auto& [id, member] : members_) {
    members.push_back(&member);
    taken += static_cast<int>(member.rows.size());
  }
  std::sort(members.begin(), members.end(), [](const Member* a, const Member* b) {
    return *std::max_element(a->rows.begin(), a->rows.end()) <
           *std::max_element(b->rows.begin(), b->rows.end());
  });
  const int most = Capacity();
  for (Member* member : members) {
    const int rows = plan.taken + static_cast<int>(member->rows.size());
    const bool fits = rows <= most && taken - rows <= rows_ - RowsFor(rows);
    member->rests = taken > most && plan.taken > 0 && !fits;
    if (!member->rests) plan.taken = rows;
  }
  plan.rows = RowsFor(std::max(plan.taken, 1));
}

// Who steps goes to the first rows, and who rests behind them.
void StepLane::Arrange(Plan& plan) {
  std::vector<Holder> holders = Holders();
  const auto begin = holders.begin(), end_of_step = begin + plan.rows, end = holders.end();
  std::set<const Member*> moved;
  const auto move = [&](int from, int to) {
    plan.moves.push_back({from, to, IsTaken(holders[to])});
    std::swap(holders[from], holders[to]);
    for (int row : {from, to}) {
      if (!IsTaken(holders[row])) continue;
      holders[row].member->rows[holders[row].index] = row;
      moved.insert(holders[row].member);
    }
  };
  for (int row = plan.rows; row < rows_; ++row) {
    if (!IsTaken(holders[row]) || holders[row].member->rests) continue;
    auto to = std::find_if_not(begin, end_of_step, IsTaken);
    if (to == end_of_step) to = std::find_if(begin, end_of_step, IsResting);
    move(row, static_cast<int>(to - begin));
  }
  for (int row = 0; row < plan.rows; ++row) {
    if (!IsTaken(holders[row]) || !holders[row].member->rests) continue;
    move(row, static_cast<int>(std::find_if_not(end_of_step, end, IsTaken) - begin));
  }
  for (const Member* member : moved) plan.moved.push_back(member->rows);
}

StepLane::Plan StepLane::PlanStep() {
  Plan plan;
  absl::MutexLock lock(&mutex_);
  Choose(plan);
  Arrange(plan);
  return plan;
}

// False: whoever was in the last step cannot do with fewer.
bool StepLane::LeaveOut(int rows) {
  absl::MutexLock lock(&mutex_);
  const auto stepping = std::count_if(members_.begin(), members_.end(),
                                      [](const auto& entry) { return !entry.second.rests; });
  if (stepping < 2) return false;
  most_rows_ = rows - 1;
  steps_until_more_ = kStepsWithFewer;
  if (!std::exchange(told_, true)) too_many_rows_ = rows;
  return true;
}

// Who stepped has used its noise. Gives what is to be told.
int StepLane::NoteStep(bool stepped) {
  absl::MutexLock lock(&mutex_);
  for (auto& [id, member] : members_) member.has_noise = member.has_noise && member.rests;
  if (stepped && steps_until_more_ > 0 && --steps_until_more_ == 0) most_rows_ = kUnlimited;
  return std::exchange(too_many_rows_, 0);
}

// There and back only where no row is free to go by.
absl::Status StepLane::MoveRow(const Move& move, device::Stream& stream) {
  for (const auto& [name, memory] : memory_) {
    const Buffer from = RowOf(memory, move.from), to = RowOf(memory, move.to);
    Buffer kept;
    if (move.back) {
      ASSIGN_OR_RETURN(kept, device_.Allocate(to.dtype(), to.shape(), Place::kDevice));
      RETURN_IF_ERROR(device_.Copy(to, kept, stream));
    }
    RETURN_IF_ERROR(device_.Copy(from, to, stream));
    if (move.back) RETURN_IF_ERROR(device_.Copy(kept, from, stream));
  }
  return absl::OkStatus();
}

absl::StatusOr<backends::BoundGraph*> StepLane::GraphFor(int rows) {
  const auto found = graphs_.find(rows);
  if (found != graphs_.end()) return &found->second;
  backends::NamedBuffers prefix;
  for (const auto& [name, memory] : memory_) prefix[name] = memory.Rows(0, rows);
  ASSIGN_OR_RETURN(backends::BoundGraph graph,
                   backends::BoundGraph::Create(executables_.at(rows), prefix));
  return &graphs_.emplace(rows, std::move(graph)).first->second;
}

absl::Status StepLane::Enqueue(int rows, device::Stream& stream) {
  ASSIGN_OR_RETURN(backends::BoundGraph * graph, CatchOutOfMemory([&] { return GraphFor(rows); }));
  return graph->Enqueue(stream);
}

absl::StatusOr<StepLane::Evaluation> StepLane::Step(device::Stream& stream) {
  Evaluation evaluation;
  do {
    const Plan plan = PlanStep();
    for (const Move& move : plan.moves) RETURN_IF_ERROR(MoveRow(move, stream));
    for (const Rows& rows : plan.moved) RETURN_IF_ERROR(CopyIndices(rows, stream));
    evaluation.status = Enqueue(plan.rows, stream);
    evaluation.rows = plan.taken;
    evaluation.computed_rows = plan.rows;
  } while (absl::IsResourceExhausted(evaluation.status) && LeaveOut(evaluation.computed_rows));
  evaluation.too_many_rows = NoteStep(evaluation.status.ok());
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
