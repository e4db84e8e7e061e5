#include "core/backends/cpu/plan.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/backends/cpu/ways.h"

namespace latentd::backends::cpu {
namespace {

constexpr absl::string_view kMagic("latcpu\0\1", 8);

template <typename T>
void Append(std::string& bytes, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<char>(value >> 8 * i));
}

// Takes numbers from the front of bytes; remembers whether they ran out.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Take() {
    if (bytes_.size() < sizeof(T)) failed_ = true;
    if (failed_) return 0;
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      value |= static_cast<T>(static_cast<uint8_t>(bytes_[i])) << 8 * i;
    }
    bytes_.remove_prefix(sizeof(T));
    return value;
  }

  // A count of elements of some size, not more than there are bytes for.
  size_t TakeCount(size_t element_bytes) {
    const auto count = Take<uint32_t>();
    if (count > bytes_.size() / element_bytes) failed_ = true;
    return failed_ ? 0 : count;
  }

  // Whether everything was there and nothing is left.
  bool done() const { return !failed_ && bytes_.empty(); }

 private:
  absl::string_view bytes_;
  bool failed_ = false;
};

void Extend(ArenaValues& values, const View& view, int step) {
  if (!view.present() || values.of_storage[view.storage] < 0) return;
  values.values[values.of_storage[view.storage]].last_use = step;
}

}  // namespace

std::string Encode(const CpuPlan& plan) {
  std::string bytes(kMagic);
  Append(bytes, static_cast<uint32_t>(plan.ways.size()));
  for (const Way way : plan.ways) Append(bytes, static_cast<uint8_t>(way));
  Append(bytes, static_cast<uint32_t>(plan.memory.offsets.size()));
  for (size_t offset : plan.memory.offsets) Append(bytes, uint64_t{offset});
  Append(bytes, uint64_t{plan.memory.arena_bytes});
  return bytes;
}

absl::StatusOr<CpuPlan> Decode(absl::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError("not a plan of this version of the CPU backend");
  }
  Reader reader(bytes.substr(kMagic.size()));
  CpuPlan plan;
  plan.ways.resize(reader.TakeCount(sizeof(uint8_t)));
  for (Way& way : plan.ways) way = Way{reader.Take<uint8_t>()};
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

absl::Status CheckWays(const Program& program, absl::Span<const Way> ways) {
  if (ways.size() != program.instructions.size()) {
    return absl::InvalidArgumentError(absl::StrCat("a plan of ", ways.size(),
                                                   " choices for a graph of ",
                                                   program.instructions.size(), " instructions"));
  }
  for (size_t i = 0; i < ways.size(); ++i) {
    if (absl::c_linear_search(WaysOf(program, program.instructions[i]), ways[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat("instruction ", i, " cannot be computed in way ",
                                                   static_cast<int>(ways[i]),
                                                   ", which the plan chooses"));
  }
  return absl::OkStatus();
}

absl::Status CheckMemory(const ArenaValues& values, const graph::MemoryPlan& memory) {
  size_t all = 0;
  for (const graph::LiveValue& value : values.values) {
    all += value.bytes + graph::kArenaAlignment;
  }
  if (memory.arena_bytes > all) {
    return absl::InvalidArgumentError(
        absl::StrCat("a plan of ", memory.arena_bytes, " bytes for values of ", all, " together"));
  }
  return graph::CheckPlan(values.values, memory);
}

}  // namespace latentd::backends::cpu
