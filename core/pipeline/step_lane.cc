#include "core/pipeline/step_lane.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
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

// x of a row's state [1, 4, C, H, W], as [1, C, H, W].
Buffer LatentsIn(const Buffer& state) {
  std::vector<int64_t> dims(state.shape().dims().begin() + 1, state.shape().dims().end());
  return state.Reshaped(Shape(std::move(dims))).Rows(0, 1);
}

}  // namespace

StepLane::StepLane(const backends::Executable& largest)
    : device_(largest.device()), members_(largest.inputs().front().shape[0]) {}

absl::StatusOr<std::unique_ptr<StepLane>> StepLane::Create(const Executables& executables) {
  const ExecutablePointer& largest = executables.rbegin()->second;
  std::unique_ptr<StepLane> lane(new StepLane(*largest));
  device::Device& device = lane->device_;
  for (const auto* ports : {&largest->inputs(), &largest->outputs()}) {
    for (const backends::Port& port : *ports) {
      if (port.updates >= 0) continue;
      ASSIGN_OR_RETURN(lane->memory_[port.name],
                       device.Allocate(port.dtype, port.shape, Place::kDevice));
    }
  }
  const Shape noise = WithRows(lane->memory_["noise"].shape(), 1);
  for (size_t i = 0; i < kNoiseBuffers; ++i) {
    ASSIGN_OR_RETURN(lane->noise_.emplace_back().memory,
                     device.Allocate(DType::kF32, noise, Place::kPinned));
  }
  ASSIGN_OR_RETURN(
      lane->zeros_,
      device.Allocate(DType::kF32, WithRows(lane->memory_["state"].shape(), 1), Place::kDevice));
  for (const auto& [rows, executable] : executables) {
    backends::NamedBuffers prefix;
    for (const auto& [name, memory] : lane->memory_) prefix[name] = memory.Rows(0, rows);
    ASSIGN_OR_RETURN(backends::BoundGraph graph, backends::BoundGraph::Create(executable, prefix));
    lane->graphs_.emplace(rows, std::move(graph));
  }
  return lane;
}

int64_t StepLane::Bytes(const StepShape& shape, int64_t channels, int64_t request_bytes) {
  constexpr int64_t kFloat = sizeof(float), kInteger = sizeof(int64_t);
  const int64_t latents = channels * shape.height * shape.width * kFloat;
  const int64_t table = kMaxEvaluations * static_cast<int64_t>(schedulers::kLineElements) * kFloat;
  const int64_t row = (schedulers::kStateRows + 1) * latents + table + request_bytes + 2 * kFloat +
                      3 * kInteger + /*finite*/ 1;
  const int64_t staging = static_cast<int64_t>(kNoiseBuffers) * latents;
  return shape.rows * row + staging + /*zeros*/ schedulers::kStateRows * latents;
}

int64_t StepLane::bytes() const {
  size_t bytes = 0;
  for (const auto& [name, memory] : memory_) bytes += memory.bytes();
  for (const Staging& noise : noise_) bytes += noise.memory.bytes();
  bytes += zeros_.bytes();
  return static_cast<int64_t>(bytes);
}

int StepLane::FindRows(int rows) const {
  int free = 0;
  for (int row = 0; row < static_cast<int>(members_.size());) {
    free = members_[row] == 0 ? free + 1 : 0;
    row += std::max(members_[row], 1);
    if (free == rows) return row - rows;
  }
  return -1;
}

absl::StatusOr<int> StepLane::Join(const LaneRows& picture, device::Stream& stream) {
  const int first = FindRows(picture.rows);
  if (first < 0) {
    return absl::FailedPreconditionError(absl::StrCat("no ", picture.rows, " of the lane's ",
                                                      members_.size(), " rows are free together"));
  }
  RETURN_IF_ERROR(CopyGuidance(picture, first, stream));
  RETURN_IF_ERROR(CopySchedule(picture, first, stream));
  const Buffer& state = memory_["state"];
  for (int row = first; row < first + picture.rows; ++row) {
    RETURN_IF_ERROR(device_.Copy(zeros_, state.Rows(row, row + 1), stream));
    RETURN_IF_ERROR(device_.Copy(picture.latents, LatentsIn(state.Rows(row, row + 1)), stream));
  }
  for (const auto& [name, packed] : picture.request) {
    RETURN_IF_ERROR(
        device_.Copy(packed, memory_.at(name).Rows(first, first + picture.rows), stream));
  }
  members_[first] = picture.rows;
  return first;
}

absl::Status StepLane::CopyGuidance(const LaneRows& picture, int first, device::Stream& stream) {
  const auto copy = [&](const char* name, DType dtype, auto value) -> absl::Status {
    const std::vector<decltype(value)> values(static_cast<size_t>(picture.rows), value);
    ASSIGN_OR_RETURN(const Buffer from,
                     Pinned(device_, dtype, {picture.rows}, absl::MakeConstSpan(values)));
    return device_.Copy(from, memory_.at(name).Rows(first, first + picture.rows), stream);
  };
  RETURN_IF_ERROR(copy("guidance_scale", DType::kF32, picture.guidance_scale));
  RETURN_IF_ERROR(copy("guidance_rescale", DType::kF32, picture.guidance_rescale));
  RETURN_IF_ERROR(copy("negative_rows", DType::kI64, int64_t{first}));
  RETURN_IF_ERROR(copy("text_rows", DType::kI64, int64_t{first} + picture.rows - 1));
  return copy("step", DType::kI64, int64_t{0});
}

absl::Status StepLane::CopySchedule(const LaneRows& picture, int first, device::Stream& stream) {
  const Buffer& tables = memory_.at("table");
  ASSIGN_OR_RETURN(const Buffer table,
                   device_.Allocate(DType::kF32, WithRows(tables.shape(), 1), Place::kPinned));
  schedulers::WriteTable(*picture.schedule, table.as<float>());
  for (int row = first; row < first + picture.rows; ++row) {
    RETURN_IF_ERROR(device_.Copy(table, tables.Rows(row, row + 1), stream));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const device::Event>> StepLane::DrawNoise(
    int first, noise::NoiseGenerator& generator, device::Stream& stream) {
  Staging& drawn = noise_[draws_++ % kNoiseBuffers];
  if (drawn.copied != nullptr) RETURN_IF_ERROR(drawn.copied->Wait());
  generator.Fill(drawn.memory);
  for (int row = first; row < first + members_[first]; ++row) {
    RETURN_IF_ERROR(device_.Copy(drawn.memory, memory_.at("noise").Rows(row, row + 1), stream));
  }
  ASSIGN_OR_RETURN(drawn.copied, stream.Record());
  return drawn.copied;
}

absl::Status StepLane::Step(device::Stream& stream) {
  int rows = 0;
  for (int row = 0; row < static_cast<int>(members_.size()); ++row) {
    if (members_[row] > 0) rows = row + members_[row];
  }
  return graphs_.lower_bound(rows)->second.Enqueue(stream);
}

absl::Status StepLane::Leave(int first, const Buffer& latents, const Buffer& finite,
                             device::Stream& stream) {
  const int text_row = first + members_[first] - 1;
  RETURN_IF_ERROR(
      device_.Copy(LatentsIn(memory_.at("state").Rows(first, first + 1)), latents, stream));
  RETURN_IF_ERROR(device_.Copy(memory_.at("finite").Rows(text_row, text_row + 1), finite, stream));
  members_[first] = 0;
  return absl::OkStatus();
}

}  // namespace latentd::pipeline
