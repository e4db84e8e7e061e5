#include "core/backends/cpu/bound_program.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <system_error>
#include <thread>
#include <utility>

#include "core/backends/cpu/code_memory.h"
#include "core/backends/cpu/kernel_rules.h"
#include "core/backends/cpu/onednn.h"
#include "core/backends/cpu/thread_count.h"
#include "core/backends/lowering/lowering.h"
#include "core/base/status_macros.h"

namespace latentd::backends::cpu {
namespace {

// Runs `work` on this thread and `others` more, or as many as there can be.
void RunOnThreads(size_t others, const std::function<void()>& work) {
  std::vector<std::jthread> threads;
  try {
    for (size_t i = 0; i < others; ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // Those that there are do it.
  }
  work();
}

// On several threads, since oneDNN generates code for each kernel.
std::vector<absl::StatusOr<BoundKernel>> BindAll(const Program& program,
                                                 absl::Span<const Algorithm> algorithms,
                                                 const Machine& machine) {
  constexpr size_t kLeastForAThread = 16;
  const size_t count = program.instructions.size();
  std::vector<absl::StatusOr<BoundKernel>> bound(count);
  std::atomic<size_t> next = 0;
  RunOnThreads(std::min<size_t>(machine.threads - 1, count / kLeastForAThread), [&] {
    const ThreadCount threads(machine.threads);
    for (size_t i = next++; i < count; i = next++) {
      bound[i] = CatchOneDnn("the CPU backend", [&]() -> absl::StatusOr<BoundKernel> {
        RETURN_IF_ERROR(CheckCodeMemory());
        return BindKernel(program, program.instructions[i], algorithms[i], machine);
      });
    }
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
