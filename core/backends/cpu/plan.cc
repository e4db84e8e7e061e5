#include "core/backends/cpu/plan.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/backends/cpu/binding/algorithms.h"
#include "core/backends/cpu/cpu_executable.h"
#include "core/backends/lowering/plan_bytes.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cpu {
namespace {

constexpr absl::string_view kMagic("latcpu\0\1", 8);

}  // namespace

std::string Encode(const CpuPlan& plan) {
  std::string bytes(kMagic);
  PutLittleEndian(bytes, static_cast<uint32_t>(plan.algorithms.size()));
  for (const Algorithm algorithm : plan.algorithms)
    PutLittleEndian(bytes, static_cast<uint8_t>(algorithm));
  lowering::PutMemory(bytes, plan.memory);
  return bytes;
}

Plan WithNeeds(const CpuPlan& plan, const graph::Graph& graph, const BoundProgram& bound) {
  return lowering::WithNeeds(Encode(plan), plan.memory, OwnBytes(graph, bound), bound);
}

absl::StatusOr<CpuPlan> Decode(absl::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError("not a plan of this version of the CPU backend");
  }
  LittleEndianReader reader(bytes.substr(kMagic.size()));
  CpuPlan plan;
  plan.algorithms.resize(reader.TakeCount(sizeof(uint8_t)));
  for (Algorithm& algorithm : plan.algorithms) algorithm = Algorithm{reader.Take<uint8_t>()};
  ASSIGN_OR_RETURN(plan.memory, lowering::TakeMemory(reader));
  return plan;
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

}  // namespace latentd::backends::cpu
