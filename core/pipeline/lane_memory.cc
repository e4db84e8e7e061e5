// The memory of a lane: how much, and in which pieces.
#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/alignment.h"
#include "core/base/status_macros.h"
#include "core/graph/split.h"
#include "core/pipeline/limits.h"
#include "core/pipeline/step_lane.h"

namespace latentd::pipeline {
namespace {

using backends::Port;
using device::Buffer;
using device::DType;
using device::Place;
using device::Shape;
using Ports = std::vector<const Port*>;

constexpr size_t kNoiseBuffers = 2;
// Alignment of a device's memory.
constexpr size_t kPortAlignment = 256;

Shape WithRows(const Shape& shape, int64_t rows) {
  std::vector<int64_t> dims = shape.dims();
  dims[0] = rows;
  return Shape(std::move(dims));
}

size_t BytesOf(const Port& port, int rows) {
  return static_cast<size_t>(WithRows(port.shape, rows).elements() * device::SizeOf(port.dtype));
}

// Ports that have memory of their own.
Ports PortsOf(const backends::Executable& executable) {
  Ports ports;
  for (const auto* all : {&executable.inputs(), &executable.outputs()}) {
    for (const Port& port : *all) {
      if (port.updates < 0) ports.push_back(&port);
    }
  }
  return ports;
}

bool IsOfPrompt(const Port* port) { return absl::StartsWith(port->name, graph::kPackedPrefix); }

absl::Status AllocateTogether(const Ports& ports, int rows, device::Device& device,
                              backends::NamedBuffers& memory) {
  size_t bytes = 0;
  for (const Port* port : ports) bytes += RoundUp(BytesOf(*port, rows), kPortAlignment);
  ASSIGN_OR_RETURN(const Buffer piece,
                   device.Allocate(DType::kU8, {static_cast<int64_t>(bytes)}, Place::kDevice));
  const auto owner = std::make_shared<const Buffer>(piece);
  auto* at = static_cast<char*>(piece.data());
  for (const Port* port : ports) {
    memory[port->name] =
        Buffer::Wrap(at, port->dtype, WithRows(port->shape, rows), owner, Place::kDevice);
    at += RoundUp(BytesOf(*port, rows), kPortAlignment);
  }
  return absl::OkStatus();
}

// In two pieces, for a device that keeps freed memory for the next such allocation (a GPU): the
// next lane of as many rows lies at the same addresses then, where sessions find what they captured
// for the last one, and one of another size where its prompts were. One by one, buffers of few
// sizes would come back in any order.
absl::StatusOr<backends::NamedBuffers> AllocatePorts(const backends::Executable& any, int rows) {
  Ports of_size = PortsOf(any);
  const auto of_prompt =
      std::stable_partition(of_size.begin(), of_size.end(), std::not_fn(IsOfPrompt));
  backends::NamedBuffers memory;
  RETURN_IF_ERROR(AllocateTogether({of_prompt, of_size.end()}, rows, any.device(), memory));
  of_size.erase(of_prompt, of_size.end());
  RETURN_IF_ERROR(AllocateTogether(of_size, rows, any.device(), memory));
  return memory;
}

}  // namespace

absl::StatusOr<std::shared_ptr<StepLane>> StepLane::Create(const backends::Executable& any,
                                                           int rows) {
  std::shared_ptr<StepLane> lane(new StepLane(any.device(), rows));
  device::Device& device = lane->device_;
  ASSIGN_OR_RETURN(lane->memory_, AllocatePorts(any, rows));
  const Shape& noise = lane->memory_["noise"].shape();
  for (size_t i = 0; i < kNoiseBuffers; ++i) {
    ASSIGN_OR_RETURN(lane->noise_.emplace_back().memory,
                     device.Allocate(DType::kF32, noise, Place::kPinned));
  }
  ASSIGN_OR_RETURN(
      lane->zeros_,
      device.Allocate(DType::kF32, WithRows(lane->memory_["state"].shape(), 1), Place::kDevice));
  ASSIGN_OR_RETURN(lane->spare_,
                   device.Allocate(DType::kU8, Shape{static_cast<int64_t>(lane->zeros_.bytes())},
                                   Place::kDevice));
  return lane;
}

int64_t StepLane::Bytes(const backends::Executable& any, int rows) {
  size_t bytes = 0;
  for (const Port* port : PortsOf(any)) {
    bytes += BytesOf(*port, rows);
    if (port->name == "noise") bytes += kNoiseBuffers * BytesOf(*port, rows);
    if (port->name == "state") bytes += /*zeros, spare*/ 2 * BytesOf(*port, 1);
  }
  return static_cast<int64_t>(bytes);
}

int64_t StepLane::Bytes(const StepShape& shape, int64_t channels, int64_t request_bytes) {
  constexpr int64_t kFloat = sizeof(float), kInteger = sizeof(int64_t);
  const int64_t latents = channels * shape.height * shape.width * kFloat;
  const int64_t table = kMaxEvaluations * static_cast<int64_t>(schedulers::kLineElements) * kFloat;
  const int64_t staging = static_cast<int64_t>(kNoiseBuffers) * latents;
  const int64_t row = (schedulers::kStateRows + 1) * latents + staging + table + request_bytes +
                      2 * kFloat + 3 * kInteger + /*finite*/ 1;
  return shape.rows * row + /*zeros, spare*/ 2 * schedulers::kStateRows * latents;
}

int64_t StepLane::bytes() const {
  size_t bytes = 0;
  for (const auto& [name, memory] : memory_) bytes += memory.bytes();
  for (const Staging& noise : noise_) bytes += noise.memory.bytes();
  bytes += zeros_.bytes() + spare_.bytes();
  return static_cast<int64_t>(bytes);
}

}  // namespace latentd::pipeline
