#include "core/backends/lowering/lifetimes.h"

#include "absl/strings/str_cat.h"
#include "core/device/buffer.h"

namespace latentd::backends::lowering {
namespace {

void Extend(ArenaValues& values, const View& view, int step) {
  if (!view.present() || values.of_storage[view.storage] < 0) return;
  values.values[values.of_storage[view.storage]].last_use = step;
}

ArenaValues StoragesInArena(const Program& program) {
  ArenaValues result;
  for (const Storage& storage : program.storages) {
    const bool in_arena = storage.place == Place::kArena;
    result.of_storage.push_back(in_arena ? static_cast<int>(result.values.size()) : -1);
    if (!in_arena) continue;
    const auto bytes = static_cast<size_t>(storage.elements * device::SizeOf(storage.dtype));
    result.values.push_back({bytes, -1, -1});
  }
  return result;
}

}  // namespace

ArenaValues ValuesInArena(const Program& program, absl::Span<const KernelNeeds> needs) {
  ArenaValues result = StoragesInArena(program);
  const int steps = static_cast<int>(program.instructions.size());
  for (int step = 0; step < steps; ++step) {
    const Instruction& instruction = program.instructions[step];
    const int made = result.of_storage[instruction.result.storage];
    if (made >= 0 && result.values[made].first_use < 0) result.values[made].first_use = step;
    Extend(result, instruction.result, step);
    for (const View& operand : instruction.operands) Extend(result, operand, step);
  }
  for (int step = 0; step < steps; ++step) {
    const size_t bytes = needs[step].workspace_bytes;
    result.of_workspace.push_back(bytes == 0 ? -1 : static_cast<int>(result.values.size()));
    if (bytes != 0) result.values.push_back({bytes, step, step});
  }
  return result;
}

absl::Status CheckMemory(const ArenaValues& values, const graph::MemoryPlan& memory) {
  size_t all = 0;
  for (const graph::LiveValue& value : values.values) {
    all += value.bytes + device::kAlignment;
  }
  if (memory.arena_bytes > all) {
    return absl::InvalidArgumentError(
        absl::StrCat("a plan of ", memory.arena_bytes, " bytes for values of ", all, " together"));
  }
  return graph::CheckPlan(values.values, memory);
}

}  // namespace latentd::backends::lowering
