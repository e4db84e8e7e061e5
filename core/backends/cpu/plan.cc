#include "core/backends/cpu/plan.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/backends/cpu/algorithms.h"
#include "core/base/coding.h"

namespace latentd::backends::cpu {
namespace {

constexpr absl::string_view kMagic("latcpu\0\1", 8);

void Extend(ArenaValues& values, const View& view, int step) {
  if (!view.present() || values.of_storage[view.storage] < 0) return;
  values.values[values.of_storage[view.storage]].last_use = step;
}

}  // namespace

std::string Encode(const CpuPlan& plan) {
  std::string bytes(kMagic);
  PutLittleEndian(bytes, static_cast<uint32_t>(plan.algorithms.size()));
  for (const Algorithm algorithm : plan.algorithms)
    PutLittleEndian(bytes, static_cast<uint8_t>(algorithm));
  PutLittleEndian(bytes, static_cast<uint32_t>(plan.memory.offsets.size()));
  for (size_t offset : plan.memory.offsets) PutLittleEndian(bytes, uint64_t{offset});
  PutLittleEndian(bytes, uint64_t{plan.memory.arena_bytes});
  return bytes;
}

absl::StatusOr<CpuPlan> Decode(absl::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError("not a plan of this version of the CPU backend");
  }
  LittleEndianReader reader(bytes.substr(kMagic.size()));
  CpuPlan plan;
  plan.algorithms.resize(reader.TakeCount(sizeof(uint8_t)));
  for (Algorithm& algorithm : plan.algorithms) algorithm = Algorithm{reader.Take<uint8_t>()};
  plan.memory.offsets.resize(reader.TakeCount(sizeof(uint64_t)));
  for (size_t& offset : plan.memory.offsets) offset = reader.Take<uint64_t>();
  plan.memory.arena_bytes = reader.Take<uint64_t>();
  if (!reader.done()) return absl::InvalidArgumentError("the plan is cut off or too long");
  return plan;
}

ArenaValues ValuesInArena(const Program& program, absl::Span<const BoundKernel> kernels) {
  ArenaValues result;
  for (const Storage& storage : program.storages) {
    const bool in_arena = storage.place == Place::kArena;
    result.of_storage.push_back(in_arena ? static_cast<int>(result.values.size()) : -1);
    if (!in_arena) continue;
    const auto bytes = static_cast<size_t>(storage.elements * device::SizeOf(storage.dtype));
    result.values.push_back({bytes, -1, -1});
  }
  const int steps = static_cast<int>(program.instructions.size());
  for (int step = 0; step < steps; ++step) {
    const Instruction& instruction = program.instructions[step];
    const int made = result.of_storage[instruction.result.storage];
    if (made >= 0 && result.values[made].first_use < 0) result.values[made].first_use = step;
    Extend(result, instruction.result, step);
    for (const View& operand : instruction.operands) Extend(result, operand, step);
  }
  for (int step = 0; step < steps; ++step) {
    const size_t bytes = kernels[step].workspace_bytes;
    result.of_workspace.push_back(bytes == 0 ? -1 : static_cast<int>(result.values.size()));
    if (bytes != 0) result.values.push_back({bytes, step, step});
  }
  return result;
}

absl::Status CheckAlgorithms(const Program& program, absl::Span<const Algorithm> algorithms) {
  if (algorithms.size() != program.instructions.size()) {
    return absl::InvalidArgumentError(absl::StrCat("a plan of ", algorithms.size(),
                                                   " choices for a graph of ",
                                                   program.instructions.size(), " instructions"));
  }
  for (size_t i = 0; i < algorithms.size(); ++i) {
    if (absl::c_linear_search(AlgorithmsFor(program, program.instructions[i]), algorithms[i]))
      continue;
    return absl::InvalidArgumentError(
        absl::StrCat("instruction ", i, " cannot be computed by algorithm ",
                     static_cast<int>(algorithms[i]), ", which the plan chooses"));
  }
  return absl::OkStatus();
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

}  // namespace latentd::backends::cpu
