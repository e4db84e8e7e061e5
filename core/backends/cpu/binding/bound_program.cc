#include "core/backends/cpu/binding/bound_program.h"

#include <algorithm>
#include <utility>

#include "core/backends/cpu/binding/code_memory.h"
#include "core/backends/cpu/binding/kernel_rules.h"
#include "core/backends/cpu/binding/onednn.h"
#include "core/backends/cpu/binding/thread_count.h"
#include "core/backends/lowering/lowering.h"
#include "core/base/errors/status_macros.h"
#include "core/base/threads/split_work.h"

namespace latentd::backends::cpu {
namespace {

// On several threads, since oneDNN generates code for each kernel.
std::vector<absl::StatusOr<BoundKernel>> BindAll(const Program& program,
                                                 absl::Span<const Algorithm> algorithms,
                                                 const Machine& machine) {
  constexpr int kLeastForAThread = 16;
  const auto count = static_cast<int>(program.instructions.size());
  std::vector<absl::StatusOr<BoundKernel>> bound(count);
  SplitWorkOn(std::min(machine.threads, 1 + count / kLeastForAThread), count, [&](int i) {
    const ThreadCount threads(machine.threads);
    bound[i] = CatchOneDnn("the CPU backend", [&]() -> absl::StatusOr<BoundKernel> {
      RETURN_IF_ERROR(CheckCodeMemory());
      return BindKernel(program, program.instructions[i], algorithms[i], machine);
    });
  });
  return bound;
}

}  // namespace

absl::StatusOr<BoundProgram> Bind(const graph::Graph& graph, std::vector<graph::Recipe> recipes,
                                  AlgorithmChoice choose, const Machine& machine) {
  BoundProgram bound;
  bound.recipes = std::move(recipes);
  bound.program = lowering::Lower(graph, bound.recipes, CpuKernelRules(machine));
  ASSIGN_OR_RETURN(const std::vector<Algorithm> algorithms, choose(bound.program));
  for (absl::StatusOr<BoundKernel>& kernel : BindAll(bound.program, algorithms, machine)) {
    RETURN_IF_ERROR(kernel.status());
    bound.kernels.push_back(std::move(kernel->run));
    bound.needs.push_back(*std::move(kernel));
  }
  bound.values = lowering::ValuesInArena(bound.program, bound.needs);
  return bound;
}

lowering::Addresses AddressesIn(char* arena, const BoundProgram& bound,
                                const graph::MemoryPlan& memory) {
  lowering::Addresses addresses = lowering::AddressesIn(arena, bound, memory);
  for (size_t i = 0; i < addresses.storages.size(); ++i) {
    const Storage& storage = bound.program.storages[i];
    if (storage.place != Place::kLiteral) continue;
    addresses.storages[i] = reinterpret_cast<char*>(const_cast<float*>(storage.literal));
  }
  return addresses;
}

}  // namespace latentd::backends::cpu
