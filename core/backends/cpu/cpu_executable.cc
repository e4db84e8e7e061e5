#include "core/backends/cpu/cpu_executable.h"

#include <set>

#include "core/backends/cpu/binding/onednn.h"
#include "core/backends/cpu/binding/thread_count.h"
#include "core/backends/ports.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cpu {

// Measured (mallinfo2, and the resident pages of oneDNN's code) on the demo's 15 graphs of three
// buckets, which have 5574 nodes, 1293 instructions and 549 packed weights: 7.6 MB on the heap
// beside graphs and weights, 8.7 MB of code, which graphs with equal shapes share and oneDNN keeps.
// These constants give 17.4 MB with 1.4 MB for the graphs.
//
// Instructions that read one weight for values of one shape, as those of tiles do, share code.
size_t OwnBytes(const graph::Graph& graph, const BoundProgram& bound) {
  constexpr size_t kNodeBytes = 256, kInstructionBytes = 1 << 10, kPrimitiveBytes = 26 << 10;
  std::set<std::pair<int, std::vector<int64_t>>> primitives;  // by weight and shape
  for (size_t i = 0; i < bound.needs.size(); ++i) {
    const std::vector<View>& operands = bound.program.instructions[i].operands;
    if (!bound.needs[i].packing.has_value()) continue;
    primitives.insert({operands[1].storage, operands[0].shape.dims()});
  }
  return sizeof(CpuExecutable) + static_cast<size_t>(graph.size()) * kNodeBytes +
         bound.needs.size() * kInstructionBytes + primitives.size() * kPrimitiveBytes;
}

CpuExecutable::CpuExecutable(Programs::Program program, std::unique_ptr<Arena::Lease> lease,
                             int threads, device::HostDevice& device)
    : program_(std::move(program)),
      lease_(std::move(lease)),
      threads_(threads),
      device_(device),
      info_{.inputs = InputPorts(*program_->graph),
            .outputs = OutputPorts(*program_->graph),
            .arena_bytes = lease_->bytes(),
            .own_bytes = OwnBytes(*program_->graph, program_->bound)},
      addresses_(AddressesIn(lease_->base(), program_->bound, program_->memory)) {}

absl::Status CpuExecutable::HoldWeights(const weights::WeightSet& weights) {
  const auto address_of = [&](const device::ConstBuffer& result) {
    return device_.AddressOf(result);
  };
  ASSIGN_OR_RETURN(held_, lowering::HoldWeights(program_->bound, weights, /*threads=*/1, address_of,
                                                addresses_));
  for (const weights::WeightRef& held : held_) info_.weights.push_back(held->data());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Session>> CpuExecutable::Bind(
    absl::Span<const device::ConstBuffer> inputs, absl::Span<const device::Buffer> outputs) {
  RETURN_IF_ERROR(CheckBuffers(info_, device_, inputs, outputs));
  std::vector<char*> from, to;
  for (const device::ConstBuffer& input : inputs) {
    from.push_back(static_cast<char*>(const_cast<void*>(device_.AddressOf(input))));
  }
  for (const device::Buffer& output : outputs) {
    to.push_back(static_cast<char*>(device_.AddressOf(output)));
  }
  return std::make_unique<CpuSession>(*this, WithPorts(addresses_, program(), from, to));
}

absl::Status CpuSession::Enqueue(device::Stream& stream) {
  static_cast<device::HostStream&>(stream).Push([this] { return Run(); });
  return absl::OkStatus();
}

absl::Status CpuSession::Run() {
  const absl::MutexLock lock(&executable_.lease_->runs());
  const ThreadCount threads(executable_.threads_);
  return CatchOneDnn("the CPU backend", [&]() -> absl::Status {
    for (size_t i = 0; i < executable_.program_->bound.kernels.size(); ++i)
      RETURN_IF_ERROR(RunInstruction(i));
    return absl::OkStatus();
  });
}

absl::Status CpuSession::RunInstruction(size_t index) {
  return executable_.program_->bound.kernels[index](addresses_.FrameOf(index));
}

}  // namespace latentd::backends::cpu
