// The memory of a lane: how much, and in which pieces.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "core/base/alignment.h"
#include "core/base/errors/status_macros.h"
#include "core/pipeline/lanes/step_lane.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;
using device::Place;
using device::Shape;
using Ports = absl::Span<const RowPort>;

constexpr int64_t kNoiseBuffers = 2;
// Alignment of a device's memory.
constexpr int64_t kPortAlignment = 256;

// Bytes of a row of the largest residual.
int64_t LargestResidual(Ports ports) {
  int64_t largest = 0;
  for (const RowPort& port : ports) {
    if (port.role == PortRole::kResidual) largest = std::max(largest, port.row_bytes());
  }
  return largest;
}

int64_t PlaceOf(const RowPort& port, int rows) {
  return RoundUp(rows * port.row_bytes(), kPortAlignment);
}

bool IsPool(const RowPort& port) { return port.role == PortRole::kPool; }

bool IsOfPrompt(const RowPort& port) {
  return port.role == PortRole::kValue && port.rate == PortRate::kJoin;
}

absl::Status AllocateTogether(Ports ports, int rows, device::Device& device,
                              std::vector<LanePort>& memory) {
  int64_t bytes = 0;
  for (const RowPort& port : ports) bytes += PlaceOf(port, rows);
  ASSIGN_OR_RETURN(const Buffer piece, device.Allocate(DType::kU8, {bytes}, Place::kDevice));
  const auto owner = std::make_shared<const Buffer>(piece);
  auto* at = static_cast<char*>(piece.data());
  for (const RowPort& port : ports) {
    memory.push_back(
        {{port}, Buffer::Wrap(at, port.dtype, port.WithRows(rows), owner, Place::kDevice)});
    at += PlaceOf(port, rows);
  }
  return absl::OkStatus();
}

// In two pieces, for a device that keeps freed memory for the next such allocation (a GPU): the
// next lane of as many rows lies at the same addresses then, where sessions find what they captured
// for the last one, and one of another size where its prompts were. One by one, buffers of few
// sizes would come back in any order.
absl::StatusOr<std::vector<LanePort>> AllocatePorts(const backends::Executable& any, int rows) {
  std::vector<RowPort> ports = StepPortsOf(any.info());
  std::erase_if(ports, IsPool);
  const auto end = std::stable_partition(ports.begin(), ports.end(), IsOfPrompt);
  const auto of_prompt = static_cast<size_t>(end - ports.begin());
  std::vector<LanePort> memory;
  RETURN_IF_ERROR(AllocateTogether(Ports(ports).first(of_prompt), rows, any.device(), memory));
  RETURN_IF_ERROR(AllocateTogether(Ports(ports).subspan(of_prompt), rows, any.device(), memory));
  return memory;
}

}  // namespace

absl::StatusOr<std::shared_ptr<StepLane>> StepLane::Create(const backends::Executable& any,
                                                           int rows,
                                                           std::shared_ptr<PathPool> paths) {
  std::shared_ptr<StepLane> lane(new StepLane(any.device(), rows, std::move(paths)));
  device::Device& device = lane->device_;
  ASSIGN_OR_RETURN(lane->ports_, AllocatePorts(any, rows));
  const Shape& noise = lane->MemoryOf(PortRole::kNoise).shape();
  for (int64_t i = 0; i < kNoiseBuffers; ++i) {
    ASSIGN_OR_RETURN(lane->noise_.emplace_back().memory,
                     device.Allocate(DType::kF32, noise, Place::kPinned));
  }
  const Shape state = lane->MemoryOf(PortRole::kState).Rows(0, 1).shape();
  ASSIGN_OR_RETURN(lane->zeros_, device.Allocate(DType::kF32, state, Place::kDevice));
  ASSIGN_OR_RETURN(lane->spare_,
                   device.Allocate(DType::kU8, Shape{static_cast<int64_t>(lane->zeros_.bytes())},
                                   Place::kDevice));
  const std::vector<RowPort> ports(lane->ports_.begin(), lane->ports_.end());
  if (const int64_t largest = LargestResidual(ports); largest > 0) {
    ASSIGN_OR_RETURN(lane->no_residual_, device.Allocate(DType::kU8, {largest}, Place::kDevice));
  }
  return lane;
}

int64_t StepLane::Bytes(Ports ports, int rows) {
  int64_t bytes = LargestResidual(ports);
  for (const RowPort& port : ports) {
    if (IsPool(port)) continue;
    bytes += rows * port.row_bytes();
    if (port.role == PortRole::kNoise) bytes += kNoiseBuffers * rows * port.row_bytes();
    if (port.role == PortRole::kState) bytes += /*zeros, spare*/ 2 * port.row_bytes();
  }
  return bytes;
}

int64_t StepLane::bytes() const {
  size_t bytes = 0;
  for (const LanePort& port : ports_) bytes += port.memory.bytes();
  for (const Staging& noise : noise_) bytes += noise.memory.bytes();
  bytes += zeros_.bytes() + spare_.bytes();
  if (no_residual_.has_memory()) bytes += no_residual_.bytes();
  return static_cast<int64_t>(bytes) + controls_.bytes() + split_.bytes();
}

}  // namespace latentd::pipeline
