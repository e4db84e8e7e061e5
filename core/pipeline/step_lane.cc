#include "core/pipeline/step_lane.h"

#include <algorithm>
#include <utility>

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

Shape WithRows(const Shape& shape, int64_t rows) {
  std::vector<int64_t> dims = shape.dims();
  dims[0] = rows;
  return Shape(std::move(dims));
}

Buffer RowOf(const Buffer& memory, int row) { return memory.Rows(row, row + 1); }

// x of a row's state [1, 4, C, H, W], as [1, C, H, W].
Buffer LatentsIn(const Buffer& state) {
  std::vector<int64_t> dims(state.shape().dims().begin() + 1, state.shape().dims().end());
  return state.Reshaped(Shape(std::move(dims))).Rows(0, 1);
}

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
  for (const auto& [member, rows] : members_) taken += rows.size();
  return static_cast<int>(taken);
}

void StepLane::Free(uint64_t member) {
  absl::MutexLock lock(&mutex_);
  members_.erase(member);
}

StepLane::Rows StepLane::RowsOf(const LanePlace& place) const {
  absl::MutexLock lock(&mutex_);
  return members_.at(place.member_);
}

std::vector<bool> StepLane::Taken() const {
  std::vector<bool> taken(rows_);
  for (const auto& [member, rows] : members_) {
    for (int row : rows) taken[row] = true;
  }
  return taken;
}

std::optional<uint64_t> StepLane::TakeRows(int count) {
  absl::MutexLock lock(&mutex_);
  const std::vector<bool> taken = Taken();
  const auto used = static_cast<int>(std::count(taken.begin(), taken.end(), true));
  const int most = executables_.empty() ? 0 : executables_.rbegin()->first;
  if (used + count > most) return std::nullopt;
  Rows rows;
  for (int row = 0; static_cast<int>(rows.size()) < count; ++row) {
    if (!taken[row]) rows.push_back(row);
  }
  const uint64_t member = next_member_++;
  members_.emplace(member, std::move(rows));
  return member;
}

absl::StatusOr<std::optional<LanePlace>> StepLane::Join(const LaneRows& picture,
                                                        device::Stream& stream) {
  const std::optional<uint64_t> member = TakeRows(picture.rows);
  if (!member) return std::nullopt;
  LanePlace place(shared_from_this(), *member);
  RETURN_IF_ERROR(GraphFor(executables_.lower_bound(rows_taken())->first).status());
  RETURN_IF_ERROR(CopyTo(RowsOf(place), picture, stream));
  return std::optional<LanePlace>(std::move(place));
}

absl::Status StepLane::CopyTo(const Rows& rows, const LaneRows& picture, device::Stream& stream) {
  RETURN_IF_ERROR(Fill("guidance_scale", rows, picture.guidance_scale, stream));
  RETURN_IF_ERROR(Fill("guidance_rescale", rows, picture.guidance_rescale, stream));
  RETURN_IF_ERROR(Fill("step", rows, int64_t{0}, stream));
  RETURN_IF_ERROR(CopyIndices(rows, stream));
  RETURN_IF_ERROR(CopySchedule(rows, picture, stream));
  const Buffer& state = memory_.at("state");
  for (size_t i = 0; i < rows.size(); ++i) {
    RETURN_IF_ERROR(device_.Copy(zeros_, RowOf(state, rows[i]), stream));
    RETURN_IF_ERROR(device_.Copy(picture.latents, LatentsIn(RowOf(state, rows[i])), stream));
    for (const auto& [name, packed] : picture.request) {
      const Buffer from = RowOf(packed, static_cast<int>(i));
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

// Where fewer rows would do, the last ones go to where others were.
void StepLane::Compact(Plan& plan) {
  std::vector<bool> taken = Taken();
  for (auto& [member, rows] : members_) {
    bool moved = false;
    for (int& row : rows) {
      if (row < plan.rows) continue;
      const auto free = std::find(taken.begin(), taken.end(), false);
      const auto to = static_cast<int>(free - taken.begin());
      plan.moves.push_back({row, to});
      taken[row] = false;
      taken[to] = true;
      row = to;
      moved = true;
    }
    if (moved) plan.moved.push_back(rows);
  }
}

StepLane::Plan StepLane::PlanStep() {
  Plan plan;
  absl::MutexLock lock(&mutex_);
  const std::vector<bool> taken = Taken();
  const auto used = static_cast<int>(std::count(taken.begin(), taken.end(), true));
  plan.rows = executables_.lower_bound(std::max(used, 1))->first;
  Compact(plan);
  return plan;
}

absl::Status StepLane::MoveRow(const Move& move, device::Stream& stream) {
  for (const auto& [name, memory] : memory_) {
    RETURN_IF_ERROR(device_.Copy(RowOf(memory, move.from), RowOf(memory, move.to), stream));
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

absl::StatusOr<int> StepLane::Step(device::Stream& stream) {
  const Plan plan = PlanStep();
  for (const Move& move : plan.moves) RETURN_IF_ERROR(MoveRow(move, stream));
  for (const Rows& rows : plan.moved) RETURN_IF_ERROR(CopyIndices(rows, stream));
  ASSIGN_OR_RETURN(backends::BoundGraph * graph, GraphFor(plan.rows));
  RETURN_IF_ERROR(graph->Enqueue(stream));
  return plan.rows;
}

absl::Status StepLane::Read(const LanePlace& place, const Buffer& latents, const Buffer& finite,
                            device::Stream& stream) const {
  const Rows rows = RowsOf(place);
  const Buffer& state = memory_.at("state");
  RETURN_IF_ERROR(device_.Copy(LatentsIn(RowOf(state, rows.front())), latents, stream));
  return device_.Copy(RowOf(memory_.at("finite"), rows.back()), finite, stream);
}

}  // namespace latentd::pipeline
