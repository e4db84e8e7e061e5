#include "core/backends/cpu/cpu_executable.h"

#include "core/backends/cpu/onednn.h"
#include "core/backends/cpu/thread_count.h"
#include "core/backends/ports.h"
#include "core/base/status_macros.h"
#include "core/weights/weight_store.h"

namespace latentd::backends::cpu {

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

// Whether an instruction reads a held storage as it is, and not as its packed weight.
bool CpuExecutable::ReadsPlain(size_t instruction, int storage) const {
  const std::vector<View>& operands = program_.instructions[instruction].operands;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool packed = i == 1 && kernels_[instruction].packing.has_value();
    if (operands[i].storage == storage && !packed) return true;
  }
  return false;
}

absl::Status CpuExecutable::HoldPlain(const std::vector<graph::Recipe>& recipes,
                                      const weights::WeightSet& weights) {
  std::vector<bool> read(program_.storages.size());
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    for (const View& operand : program_.instructions[i].operands) {
      if (operand.present() && ReadsPlain(i, operand.storage)) read[operand.storage] = true;
    }
  }
  for (size_t i = 0; i < program_.storages.size(); ++i) {
    const Storage& storage = program_.storages[i];
    if (!read[i] || storage.place != Place::kHeld) continue;
    ASSIGN_OR_RETURN(weights::Held held,
                     weights.store().Get(recipes[storage.index].graph, weights));
    storages_[i] = static_cast<char*>(const_cast<void*>(held->data()));
    held_.push_back(std::move(held));
  }
  return absl::OkStatus();
}

absl::Status CpuExecutable::HoldWeights(const std::vector<graph::Recipe>& recipes,
                                        const weights::WeightSet& weights) {
  RETURN_IF_ERROR(HoldPlain(recipes, weights));
  for (size_t i = 0; i < kernels_.size(); ++i) {
    if (!kernels_[i].packing.has_value()) continue;
    const Packing& packing = *kernels_[i].packing;
    const View& weight = program_.instructions[i].operands[1];
    const graph::Graph& recipe = recipes[program_.storages[weight.storage].index].graph;
    ASSIGN_OR_RETURN(weights::Held held,
                     weights.store().Get(recipe, weights, packing.form, packing.packer));
    packed_[i] = held->data();
    held_.push_back(std::move(held));
  }
  return absl::OkStatus();
}

absl::Status CpuExecutable::Run(absl::Span<const device::Buffer> inputs,
                                absl::Span<device::Buffer> outputs) {
  RETURN_IF_ERROR(CheckBuffers("input", inputs_, inputs));
  RETURN_IF_ERROR(CheckBuffers("output", outputs_, outputs));
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

size_t CpuExecutable::own_bytes() const {
  size_t bytes = sizeof(*this) + storages_.size() * (sizeof(Storage) + sizeof(char*));
  // A compiled primitive of oneDNN takes a few pages of code; primitives of one shape share it.
  constexpr size_t kCodeBytes = 16 << 10;
  for (const BoundKernel& kernel : kernels_) {
    bytes += sizeof(Instruction) + sizeof(BoundKernel);
    if (kernel.packing.has_value()) bytes += kCodeBytes;
  }
  return bytes;
}

}  // namespace latentd::backends::cpu
