#include "core/backends/cpu/cpu_executable.h"

#include <algorithm>

#include "core/backends/cpu/element.h"
#include "core/backends/cpu/onednn.h"
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
    const weights::WeightFormat packing =
        storage.widened ? weights::WeightFormat{"f32", InFloat32, bytes}
                        : weights::WeightFormat{.form = "", .packer = nullptr, .bytes = bytes};
    forms.push_back({storage.index, static_cast<int>(i), -1, packing});
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
size_t OwnBytes(const graph::Graph& graph, absl::Span<const BoundKernel> kernels) {
  constexpr size_t kNodeBytes = 256, kInstructionBytes = 1 << 10, kPrimitiveBytes = 26 << 10;
  const auto primitives = static_cast<size_t>(
      std::count_if(kernels.begin(), kernels.end(),
                    [](const BoundKernel& kernel) { return kernel.packing.has_value(); }));
  return sizeof(CpuExecutable) + static_cast<size_t>(graph.size()) * kNodeBytes +
         kernels.size() * kInstructionBytes + primitives * kPrimitiveBytes;
}

CpuExecutable::CpuExecutable(std::shared_ptr<const graph::Graph> graph, Program program,
                             std::vector<BoundKernel> kernels, std::unique_ptr<Arena::Lease> lease,
                             int threads)
    : graph_(std::move(graph)),
      program_(std::move(program)),
      kernels_(std::move(kernels)),
      lease_(std::move(lease)),
      threads_(threads),
      inputs_(InputPorts(*graph_)),
      outputs_(OutputPorts(*graph_)),
      storages_(program_.storages.size(), nullptr),
      workspaces_(program_.instructions.size(), nullptr),
      packed_(program_.instructions.size(), nullptr) {
  for (size_t i = 0; i < program_.storages.size(); ++i) {
    const Storage& storage = program_.storages[i];
    if (storage.place != Place::kLiteral) continue;
    storages_[i] = reinterpret_cast<char*>(const_cast<float*>(storage.literal));
  }
}

void CpuExecutable::Place(const ArenaValues& values, const graph::MemoryPlan& memory) {
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
    if (wanted.instruction >= 0) {
      packed_[wanted.instruction] = held->data();
    } else {
      storages_[wanted.storage] = static_cast<char*>(const_cast<void*>(held->data()));
    }
    held_.push_back(std::move(held));
  }
  return absl::OkStatus();
}

std::vector<const void*> CpuExecutable::weights() const {
  std::vector<const void*> weights;
  weights.reserve(held_.size());
  for (const weights::WeightRef& held : held_) weights.push_back(held->data());
  return weights;
}

absl::Status CpuExecutable::Run(absl::Span<const device::Buffer> inputs,
                                absl::Span<device::Buffer> outputs) {
  RETURN_IF_ERROR(CheckBuffers("input", inputs_, inputs));
  RETURN_IF_ERROR(CheckBuffers("output", outputs_, outputs));
  const absl::MutexLock lock(&lease_->runs());
  return RunInArena(inputs, outputs);
}

absl::Status CpuExecutable::RunInArena(absl::Span<const device::Buffer> inputs,
                                       absl::Span<device::Buffer> outputs) {
  for (size_t i = 0; i < storages_.size(); ++i) {
    const Storage& storage = program_.storages[i];
    if (storage.place == Place::kInput) {
      storages_[i] = static_cast<char*>(const_cast<void*>(inputs[storage.index].data()));
    } else if (storage.place == Place::kOutput) {
      storages_[i] = static_cast<char*>(outputs[storage.index].data());
    }
  }
  const ThreadCount threads(threads_);
  return CatchOneDnn("the CPU backend", [&]() -> absl::Status {
    for (size_t i = 0; i < kernels_.size(); ++i) RETURN_IF_ERROR(RunInstruction(i));
    return absl::OkStatus();
  });
}

absl::Status CpuExecutable::RunInstruction(size_t i) {
  return kernels_[i].run({storages_.data(), workspaces_[i], packed_[i]});
}

}  // namespace latentd::backends::cpu
