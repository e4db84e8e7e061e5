#include "core/backends/cpu/cpu_backend.h"

#include <torch/headeronly/version.h>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
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

std::vector<uint8_t> DefaultChoices(const Program& program, const Machine& machine) {
  std::vector<uint8_t> choices;
  for (const Instruction& instruction : program.instructions) {
    choices.push_back(static_cast<uint8_t>(DefaultChoice(instruction, machine)));
  }
  return choices;
}

absl::StatusOr<std::vector<BoundKernel>> BindAll(const Program& program,
                                                 absl::Span<const uint8_t> choices,
                                                 const Machine& machine) {
  const ThreadCount threads(machine.threads);
  using Kernels = absl::StatusOr<std::vector<BoundKernel>>;
  return CatchOneDnn(kName, [&]() -> Kernels {
    std::vector<BoundKernel> kernels;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      ASSIGN_OR_RETURN(BoundKernel kernel,
                       BindKernel(program, program.instructions[i], choices[i], machine));
      kernels.push_back(std::move(kernel));
    }
    return kernels;
  });
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
  RETURN_IF_ERROR(graph::Verify(graph));
  Bound bound;
  bound.recipes = graph::ExtractRecipes(graph);
  ASSIGN_OR_RETURN(bound.program, Lower(graph, bound.recipes));
  ASSIGN_OR_RETURN(CpuPlan plan, Decode(plan_bytes));
  RETURN_IF_ERROR(CheckChoices(bound.program, plan.choices));
  ASSIGN_OR_RETURN(bound.kernels, BindAll(bound.program, plan.choices, machine));
  bound.values = ValuesInArena(bound.program, bound.kernels);
  RETURN_IF_ERROR(CheckMemory(bound.values, plan.memory));
  bound.memory = std::move(plan.memory);
  return bound;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuBackend>> CpuBackend::Create(const CpuOptions& options) {
  const std::string& name = options.instruction_set;
  const KernelTable* kernels = name.empty() ? &KernelsOfThisMachine() : KernelsByName(name.c_str());
  if (kernels == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "instruction set ", name, ": this machine has up to ", KernelsOfThisMachine().name));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<Arena> arena, Arena::Reserve());
  const int threads = options.threads > 0 ? options.threads : omp_get_max_threads();
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
                      OneDnnInstructionSet(), " libtorch-", TORCH_VERSION);
}

absl::StatusOr<std::string> CpuBackend::Plan(const graph::Graph& graph) const {
  const std::vector<graph::Recipe> recipes = graph::ExtractRecipes(graph);
  ASSIGN_OR_RETURN(const Program program, Lower(graph, recipes));
  CpuPlan plan;
  plan.choices = DefaultChoices(program, machine_);
  ASSIGN_OR_RETURN(const std::vector<BoundKernel> kernels,
                   BindAll(program, plan.choices, machine_));
  ASSIGN_OR_RETURN(plan.memory, graph::PlanMemory(ValuesInArena(program, kernels).values));
  return Encode(plan);
}

absl::StatusOr<std::unique_ptr<Executable>> CpuBackend::Load(
    std::shared_ptr<const graph::Graph> graph, absl::string_view plan_bytes,
    const weights::WeightSet& weights) {
  ASSIGN_OR_RETURN(Bound bound, Bind(*graph, plan_bytes, machine_));
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
  MemoryNeeds needs;
  needs.arena_bytes = bound.memory.arena_bytes;
  needs.executable_bytes = OwnBytes(graph, bound.kernels);
  for (const WeightForm& wanted : WeightForms(bound.program, bound.kernels)) {
    ASSIGN_OR_RETURN(std::string key, weights::WeightStore::Key(
                                          bound.recipes[wanted.recipe].graph, weights,
                                          wanted.packing != nullptr ? wanted.packing->form : ""));
    needs.weights[std::move(key)] = wanted.bytes;
  }
  return needs;
}

}  // namespace latentd::backends::cpu
