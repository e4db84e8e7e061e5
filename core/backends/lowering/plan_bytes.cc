#include "core/backends/lowering/plan_bytes.h"

namespace latentd::backends::lowering {

void PutMemory(std::string& bytes, const graph::MemoryPlan& memory) {
  PutLittleEndian(bytes, static_cast<uint32_t>(memory.offsets.size()));
  for (size_t offset : memory.offsets) PutLittleEndian(bytes, uint64_t{offset});
  PutLittleEndian(bytes, uint64_t{memory.arena_bytes});
}

absl::StatusOr<graph::MemoryPlan> TakeMemory(LittleEndianReader& reader) {
  graph::MemoryPlan memory;
  memory.offsets.resize(reader.TakeCount(sizeof(uint64_t)));
  for (size_t& offset : memory.offsets) offset = reader.Take<uint64_t>();
  memory.arena_bytes = reader.Take<uint64_t>();
  if (!reader.done()) return absl::InvalidArgumentError("the plan is cut off or too long");
  return memory;
}

}  // namespace latentd::backends::lowering
