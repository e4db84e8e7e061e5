#include "core/backends/cpu/cpu_executable.h"

#include <algorithm>
#include <set>

#include "core/backends/cpu/onednn.h"
#include "core/backends/cpu/packing.h"
#include "core/backends/cpu/thread_count.h"
#include "core/backends/ports.h"
#include "core/base/status_macros.h"
#include "core/weights/weight_store.h"

namespace latentd::backends::cpu {

namespace {

// Which storages some instruction reads as they are, and not as its packed weight.
std::vector<bool> ReadPlain(const Program& program, absl::Span<const BoundKernel> kernels) {
  std::vector<bool> read(program.storages.size());
  for (size_t i = 0; i < kernels.size(); ++i) {
    const std::vector<View>& operands = program.instructions[i].operands;
    for (size_t k = 0; k < operands.size(); ++k) {
      const bool packed = k == 1 && kernels[i].packing.has_value();
      if (operands[k].present() && !packed) read[operands[k].storage] = true;
    }
  }
  return read;
}

}  // namespace

std::vector<WeightUse> WeightUses(const Program& program, absl::Span<const BoundKernel> kernels) {
  std::vector<WeightUse> forms;
  const std::vector<bool> plain = ReadPlain(program, kernels);
  for (size_t i = 0; i < program.storages.size(); ++i) {
    const Storage& storage = program.storages[i];
    if (!plain[i] || storage.place != Place::kHeld) continue;
    const auto bytes = static_cast<size_t>(storage.elements * device::SizeOf(storage.dtype));
    const absl::string_view form = storage.widened ? kWideForm : "";
    forms.push_back({storage.index, static_cast<int>(i), -1, {std::string(form), bytes}});
  }
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (!kernels[i].packing.has_value()) continue;
    const int storage = program.instructions[i].operands[1].storage;
    forms.push_back(
        {program.storages[storage].index, -1, static_cast<int>(i), *kernels[i].packing});
  }
  return forms;
}

// Measured (mallinfo2, and the resident pages of oneDNN's code) on the demo's 15 graphs of three
// buckets, which have 5574 nodes, 1293 instructions and 549 packed weights: 7.6 MB on the heap
// beside graphs and weights, 8.7 MB of code, which graphs with equal shapes share and oneDNN keeps.
// These constants give 17.4 MB with 1.4 MB for the graphs.
//
// Instructions that read one weight for values of one shape, as those of tiles do, share code.
size_t OwnBytes(const graph::Graph& graph, const Program& program,
                absl::Span<const BoundKernel> kernels) {
  constexpr size_t kNodeBytes = 256, kInstructionBytes = 1 << 10, kPrimitiveBytes = 26 << 10;
  std::set<std::pair<int, std::vector<int64_t>>> primitives;  // by weight and shape
  for (size_t i = 0; i < kernels.size(); ++i) {
    const std::vector<View>& operands = program.instructions[i].operands;
    if (!kernels[i].packing.has_value()) continue;
    primitives.insert({operands[1].storage, operands[0].shape.dims()});
  }
  return sizeof(CpuExecutable) + static_cast<size_t>(graph.size()) * kNodeBytes +
         kernels.size() * kInstructionBytes + primitives.size() * kPrimitiveBytes;
}

CpuExecutable::CpuExecutable(std::shared_ptr<const graph::Graph> graph, Program program,
                             std::vector<BoundKernel> kernels, std::unique_ptr<Arena::Lease> lease,
                             int threads, device::HostDevice& device)
    : graph_(std::move(graph)),
      program_(std::move(program)),
      kernels_(std::move(kernels)),
      lease_(std::move(lease)),
      threads_(threads),
      device_(device),
      info_{.inputs = InputPorts(*graph_),
            .outputs = OutputPorts(*graph_),
            .arena_bytes = lease_->bytes(),
            .own_bytes = OwnBytes(*graph_, program_, kernels_)},
      storages_(program_.storages.size(), nullptr),
      workspaces_(program_.instructions.size(), nullptr),
      packed_(program_.instructions.size(), nullptr) {
  for (size_t i = 0; i < program_.storages.size(); ++i) {
    const Storage& storage = program_.storages[i];
    if (storage.place != Place::kLiteral) continue;
    storages_[i] = reinterpret_cast<char*>(const_cast<float*>(storage.literal));
  }
}

void CpuExecutable::Place(const lowering::ArenaValues& values, const graph::MemoryPlan& memory) {
  for (size_t i = 0; i < storages_.size(); ++i) {
    const int value = values.of_storage[i];
    if (value >= 0) storages_[i] = lease_->base() + memory.offsets[value];
  }
  for (size_t i = 0; i < workspaces_.size(); ++i) {
    const int value = values.of_workspace[i];
    if (value >= 0) workspaces_[i] = lease_->base() + memory.offsets[value];
  }
}

absl::Status CpuExecutable::HoldWeights(const std::vector<graph::Recipe>& recipes,
                                        const weights::WeightSet& weights) {
  for (const WeightUse& wanted : WeightUses(program_, kernels_)) {
    ASSIGN_OR_RETURN(weights::WeightRef held,
                     weights.store().Get(recipes[wanted.recipe].graph, weights, wanted.packing));
    const void* address = device_.AddressOf(*held);
    if (wanted.instruction >= 0) {
      packed_[wanted.instruction] = address;
    } else {
      storages_[wanted.storage] = static_cast<char*>(const_cast<void*>(address));
    }
    info_.weights.push_back(held->data());
    held_.push_back(std::move(held));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Session>> CpuExecutable::Bind(
    absl::Span<const device::ConstBuffer> inputs, absl::Span<const device::Buffer> outputs) {
  RETURN_IF_ERROR(CheckBuffers(info_, device_, inputs, outputs));
  std::vector<char*> storages = storages_;
  for (size_t i = 0; i < storages.size(); ++i) {
    const Storage& storage = program_.storages[i];
    if (storage.place == Place::kInput) {
      // Written only where an output updates it, whose buffer is a writable one.
      const void* address = device_.AddressOf(inputs[storage.index]);
      storages[i] = static_cast<char*>(const_cast<void*>(address));
    } else if (storage.place == Place::kOutput) {
      storages[i] = static_cast<char*>(device_.AddressOf(outputs[storage.index]));
    }
  }
  return std::make_unique<CpuSession>(*this, std::move(storages));
}

absl::Status CpuSession::Enqueue(device::Stream& stream) {
  static_cast<device::HostStream&>(stream).Push([this] { return Run(); });
  return absl::OkStatus();
}

absl::Status CpuSession::Run() {
  const absl::MutexLock lock(&executable_.lease_->runs());
  const ThreadCount threads(executable_.threads_);
  return CatchOneDnn("the CPU backend", [&]() -> absl::Status {
    for (size_t i = 0; i < executable_.kernels_.size(); ++i) RETURN_IF_ERROR(RunInstruction(i));
    return absl::OkStatus();
  });
}

absl::Status CpuSession::RunInstruction(size_t index) {
  return executable_.kernels_[index].run(
      {storages_.data(), executable_.workspaces_[index], executable_.packed_[index]});
}

}  // namespace latentd::backends::cpu
