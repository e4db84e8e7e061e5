#include "core/backends/lowering/bound_program.h"

#include <utility>

#include "core/base/errors/status_macros.h"

namespace latentd::backends::lowering {
namespace {

// Marks the storages that some instruction reads as they are, and not as its packed weight.
std::vector<bool> ReadPlain(const BoundProgram& bound) {
  std::vector<bool> read(bound.program.storages.size());
  for (size_t i = 0; i < bound.needs.size(); ++i) {
    const std::vector<View>& operands = bound.program.instructions[i].operands;
    for (size_t k = 0; k < operands.size(); ++k) {
      const bool packed = k == 1 && bound.needs[i].packing.has_value();
      if (operands[k].present() && !packed) read[operands[k].storage] = true;
    }
  }
  return read;
}

}  // namespace

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
  for (size_t i = 0; i < bound.needs.size(); ++i) {
    if (!bound.needs[i].packing.has_value()) continue;
    const int storage = bound.program.instructions[i].operands[1].storage;
    uses.push_back(
        {bound.program.storages[storage].index, -1, static_cast<int>(i), *bound.needs[i].packing});
  }
  return uses;
}

Plan WithNeeds(std::string bytes, const graph::MemoryPlan& memory, size_t own_bytes,
               const BoundProgram& bound) {
  Plan plan = {std::move(bytes), memory.arena_bytes, own_bytes, {}};
  for (const WeightUse& use : WeightUses(bound)) {
    plan.weights.push_back({bound.recipes[use.recipe].value, use.format.form, use.format.bytes,
                            use.format.scratch_bytes});
  }
  return plan;
}

absl::Status CheckPlan(const Plan& plan, const graph::MemoryPlan& memory, size_t own_bytes,
                       const BoundProgram& bound) {
  RETURN_IF_ERROR(DataLossIfInvalid(CheckMemory(bound.values, memory)));
  if (WithNeeds(plan.bytes, memory, own_bytes, bound) == plan) return absl::OkStatus();
  return absl::DataLossError("the plan needs other memory than it says");
}

absl::Status DataLossIfInvalid(const absl::Status& check) {
  return absl::IsInvalidArgument(check) ? absl::DataLossError(check.message()) : check;
}

}  // namespace latentd::backends::lowering
