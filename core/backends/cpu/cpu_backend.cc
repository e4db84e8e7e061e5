#include "core/backends/cpu/cpu_backend.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <system_error>
#include <thread>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/backends/cpu/algorithms.h"
#include "core/backends/cpu/code_memory.h"
#include "core/backends/cpu/cpu_executable.h"
#include "core/backends/cpu/fused_patterns.h"
#include "core/backends/cpu/lowering.h"
#include "core/backends/cpu/onednn.h"
#include "core/backends/cpu/plan.h"
#include "core/backends/cpu/thread_count.h"
#include "core/base/status_macros.h"
#include "core/graph/verifier.h"

namespace latentd::backends::cpu {
namespace {

constexpr absl::string_view kName = "the CPU backend";

std::vector<Algorithm> ChooseAlgorithms(const Program& program, const Machine& machine) {
  std::vector<Algorithm> algorithms;
  for (const Instruction& instruction : program.instructions) {
    algorithms.push_back(ChooseAlgorithm(program, instruction, machine));
  }
  return algorithms;
}

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
absl::StatusOr<std::vector<BoundKernel>> BindAll(const Program& program,
                                                 absl::Span<const Algorithm> algorithms,
                                                 const Machine& machine) {
  constexpr size_t kLeastForAThread = 16;
  const size_t count = program.instructions.size();
  std::vector<absl::StatusOr<BoundKernel>> bound(count);
  std::atomic<size_t> next = 0;
  RunOnThreads(std::min<size_t>(machine.threads - 1, count / kLeastForAThread), [&] {
    const ThreadCount threads(machine.threads);
    for (size_t i = next++; i < count; i = next++) {
      bound[i] = CatchOneDnn(kName, [&]() -> absl::StatusOr<BoundKernel> {
        RETURN_IF_ERROR(CheckCodeMemory());
        return BindKernel(program, program.instructions[i], algorithms[i], machine);
      });
    }
  });
  std::vector<BoundKernel> kernels;
  kernels.reserve(count);
  for (absl::StatusOr<BoundKernel>& kernel : bound) {
    RETURN_IF_ERROR(kernel.status());
    kernels.push_back(*std::move(kernel));
  }
  return kernels;
}

// Of a check of graph or plan: the plan is at fault.
absl::Status DataLossUnlessOk(const absl::Status& check) {
  return check.ok() ? check : absl::DataLossError(check.message());
}

// A graph and its plan, checked against each other, as kernels that lack memory and weights.
struct Bound {
  std::vector<graph::Recipe> recipes;
  Program program;
  std::vector<BoundKernel> kernels;
  ArenaValues values;
  graph::MemoryPlan memory;
};

absl::StatusOr<Bound> Bind(const graph::Graph& graph, absl::string_view plan_bytes,
                           const Machine& machine) {
  RETURN_IF_ERROR(DataLossUnlessOk(graph::Verify(graph)));
  Bound bound;
  bound.recipes = graph::ExtractRecipes(graph);
  bound.program = Lower(graph, bound.recipes, machine);
  absl::StatusOr<CpuPlan> plan = Decode(plan_bytes);
  RETURN_IF_ERROR(DataLossUnlessOk(plan.status()));
  RETURN_IF_ERROR(DataLossUnlessOk(CheckAlgorithms(bound.program, plan->algorithms)));
  ASSIGN_OR_RETURN(bound.kernels, BindAll(bound.program, plan->algorithms, machine));
  bound.values = ValuesInArena(bound.program, bound.kernels);
  RETURN_IF_ERROR(DataLossUnlessOk(CheckMemory(bound.values, plan->memory)));
  bound.memory = std::move(plan->memory);
  return bound;
}

absl::StatusOr<MemoryNeeds> NeedsOf(const graph::Graph& graph, const Bound& bound,
                                    const weights::WeightSet& weights) {
  MemoryNeeds needs;
  needs.arena_bytes = bound.memory.arena_bytes;
  needs.executable_bytes = OwnBytes(graph, bound.kernels);
  for (const WeightUse& wanted : WeightUses(bound.program, bound.kernels)) {
    ASSIGN_OR_RETURN(
        const weights::ResultNeeds result,
        weights.store().NeedsOf(bound.recipes[wanted.recipe].graph, weights, wanted.packing));
    needs.Add(result);
  }
  return needs;
}

}  // namespace

bool HasFastBf16() {
  return (OneDnnInstructionSet() & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx;
}

absl::StatusOr<std::unique_ptr<CpuBackend>> CpuBackend::Create(const CpuOptions& options) {
  const std::string& name = options.instruction_set;
  const KernelTable* kernels = name.empty() ? &KernelsOfThisMachine() : KernelsByName(name.c_str());
  if (kernels == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "instruction set ", name, ": this machine has up to ", KernelsOfThisMachine().name));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<Arena> arena,
                   Arena::Reserve(static_cast<size_t>(options.memory_bytes)));
  const int wanted = options.threads > 0 ? options.threads : omp_get_max_threads();
  // OMP_THREAD_LIMIT: kernels share out their work among as many threads as they are told.
  const int threads = std::min(wanted, omp_get_thread_limit());
  return absl::WrapUnique(new CpuBackend(std::move(arena), {kernels, threads}));
}

CpuBackend::CpuBackend(std::shared_ptr<Arena> arena, Machine machine)
    : arena_(std::move(arena)), machine_(machine) {
  target_.name = "cpu";
  target_.image_layout = graph::Layout::kNhwc;
  target_.fused.insert(FusedKinds().begin(), FusedKinds().end());
  target_.merge_linears = true;  // attention reads slices without copying them
}

std::string CpuBackend::Fingerprint() const {
  const dnnl_version_t* onednn = dnnl_version();
  return absl::StrCat("cpu ", machine_.kernels->name, " threads-", machine_.threads, " onednn-",
                      onednn->major, ".", onednn->minor, ".", onednn->patch, "-isa-",
                      OneDnnInstructionSet());
}

absl::StatusOr<std::string> CpuBackend::Plan(const graph::Graph& graph) const {
  const std::vector<graph::Recipe> recipes = graph::ExtractRecipes(graph);
  const Program program = Lower(graph, recipes, machine_);
  CpuPlan plan;
  plan.algorithms = ChooseAlgorithms(program, machine_);
  ASSIGN_OR_RETURN(const std::vector<BoundKernel> kernels,
                   BindAll(program, plan.algorithms, machine_));
  ASSIGN_OR_RETURN(plan.memory, graph::PlanMemory(ValuesInArena(program, kernels).values));
  return Encode(plan);
}

absl::StatusOr<std::unique_ptr<Executable>> CpuBackend::LoadIf(
    std::shared_ptr<const graph::Graph> graph, absl::string_view plan_bytes,
    const weights::WeightSet& weights, const Admission& admit) {
  ASSIGN_OR_RETURN(Bound bound, Bind(*graph, plan_bytes, machine_));
  if (admit) {
    ASSIGN_OR_RETURN(const MemoryNeeds needs, NeedsOf(*graph, bound, weights));
    RETURN_IF_ERROR(admit(needs));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Arena::Lease> lease, arena_->Take(bound.memory.arena_bytes));
  auto executable =
      std::make_unique<CpuExecutable>(std::move(graph), std::move(bound.program),
                                      std::move(bound.kernels), std::move(lease), machine_.threads);
  executable->Place(bound.values, bound.memory);
  RETURN_IF_ERROR(executable->HoldWeights(bound.recipes, weights));
  return executable;
}

absl::StatusOr<MemoryNeeds> CpuBackend::Predict(const graph::Graph& graph, absl::string_view plan,
                                                const weights::WeightSet& weights) const {
  ASSIGN_OR_RETURN(const Bound bound, Bind(graph, plan, machine_));
  return NeedsOf(graph, bound, weights);
}

}  // namespace latentd::backends::cpu
