#include "core/backends/cuda/bound_program.h"

#include <cstring>
#include <utility>

#include "core/backends/cuda/binders.h"
#include "core/backends/cuda/kernel_rules.h"
#include "core/backends/cuda/packing.h"
#include "core/backends/lowering/lowering.h"
#include "core/base/alignment.h"
#include "core/base/status_macros.h"
#include "core/device/buffer.h"

namespace latentd::backends::cuda {
namespace {

// Which storages some instruction reads as they are, and not as its packed weight.
std::vector<bool> ReadPlain(const BoundProgram& bound) {
  std::vector<bool> read(bound.program.storages.size());
  for (size_t i = 0; i < bound.kernels.size(); ++i) {
    const std::vector<View>& operands = bound.program.instructions[i].operands;
    for (size_t k = 0; k < operands.size(); ++k) {
      const bool packed = k == 1 && bound.kernels[i].packing.has_value();
      if (operands[k].present() && !packed) read[operands[k].storage] = true;
    }
  }
  return read;
}

}  // namespace

absl::StatusOr<BoundProgram> Bind(const graph::Graph& graph, std::vector<graph::Recipe> recipes,
                                  const Chooser& chooser, const Gpu& gpu) {
  BoundProgram bound;
  bound.recipes = std::move(recipes);
  bound.program = lowering::Lower(graph, bound.recipes, CudaKernelRules(IsHopper(gpu)));
  std::vector<size_t> workspaces;
  for (const Instruction& instruction : bound.program.instructions) {
    ASSIGN_OR_RETURN(BoundKernel kernel, BindKernel(bound.program, instruction, chooser, gpu));
    workspaces.push_back(kernel.workspace_bytes);
    bound.kernels.push_back(std::move(kernel));
  }
  bound.values = lowering::ValuesInArena(bound.program, workspaces);
  for (graph::LiveValue& value : bound.values.values) {
    value.bytes = RoundUp(value.bytes, kPlaceAlignment);
  }
  return bound;
}

std::vector<WeightUse> WeightUses(const BoundProgram& bound) {
  std::vector<WeightUse> uses;
  const std::vector<bool> plain = ReadPlain(bound);
  for (size_t i = 0; i < bound.program.storages.size(); ++i) {
    const Storage& storage = bound.program.storages[i];
    if (!plain[i] || storage.place != Place::kHeld) continue;
    const auto bytes = static_cast<size_t>(storage.elements * device::SizeOf(storage.dtype));
    const absl::string_view form = storage.widened ? kWideForm : "";
    uses.push_back({storage.index, static_cast<int>(i), -1, {std::string(form), bytes}});
  }
  for (size_t i = 0; i < bound.kernels.size(); ++i) {
    if (!bound.kernels[i].packing.has_value()) continue;
    const int storage = bound.program.instructions[i].operands[1].storage;
    uses.push_back({bound.program.storages[storage].index, -1, static_cast<int>(i),
                    *bound.kernels[i].packing});
  }
  return uses;
}

Literals PlaceLiterals(const Program& program) {
  Literals literals;
  for (const Storage& storage : program.storages) {
    const bool is_literal = storage.place == Place::kLiteral;
    literals.offsets.push_back(is_literal ? static_cast<int64_t>(literals.bytes) : -1);
    if (is_literal)
      literals.bytes += RoundUp<size_t>(storage.elements * sizeof(float), kPlaceAlignment);
  }
  return literals;
}

void WriteLiterals(const Program& program, const Literals& literals, char* to) {
  for (size_t i = 0; i < program.storages.size(); ++i) {
    const Storage& storage = program.storages[i];
    if (literals.offsets[i] < 0) continue;
    std::memcpy(to + literals.offsets[i], storage.literal, storage.elements * sizeof(float));
  }
}

absl::Status CheckMemory(const BoundProgram& bound, const graph::MemoryPlan& memory) {
  for (size_t offset : memory.offsets) {
    if (offset % kPlaceAlignment == 0) continue;
    return absl::InvalidArgumentError("a plan with a place that kernels cannot read");
  }
  return lowering::CheckMemory(bound.values, memory);
}

ArenaAddresses AddressesIn(char* arena, const BoundProgram& bound,
                           const graph::MemoryPlan& memory) {
  const auto at = [&](int value) { return value < 0 ? nullptr : arena + memory.offsets[value]; };
  ArenaAddresses addresses;
  for (int value : bound.values.of_storage) addresses.storages.push_back(at(value));
  for (int value : bound.values.of_workspace) addresses.workspaces.push_back(at(value));
  return addresses;
}

size_t OwnBytes(const BoundProgram& bound) {
  constexpr size_t kNodeBytes = 8 << 10;
  return PlaceLiterals(bound.program).bytes + bound.kernels.size() * kNodeBytes;
}

Plan WithNeeds(std::string bytes, const graph::MemoryPlan& memory, const BoundProgram& bound) {
  Plan plan = {std::move(bytes), memory.arena_bytes, OwnBytes(bound), {}};
  for (const WeightUse& use : WeightUses(bound)) {
    plan.weights.push_back({bound.recipes[use.recipe].value, use.format.form, use.format.bytes,
                            use.format.scratch_bytes});
  }
  return plan;
}

}  // namespace latentd::backends::cuda
