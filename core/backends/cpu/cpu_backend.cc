#include "core/backends/cpu/cpu_backend.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/backends/cpu/binding/algorithms.h"
#include "core/backends/cpu/binding/onednn.h"
#include "core/backends/cpu/binding/thread_count.h"
#include "core/backends/cpu/cpu_executable.h"
#include "core/backends/cpu/plan.h"
#include "core/backends/cpu/recipe.h"
#include "core/backends/lowering/fused_patterns.h"
#include "core/base/errors/status_macros.h"
#include "core/graph/verifier.h"

namespace latentd::backends::cpu {

using lowering::DataLossIfInvalid;

namespace {

constexpr absl::string_view kName = "the CPU backend";

// The graph as the plan says, once the two have been checked against each other.
absl::StatusOr<BoundProgram> BindPlan(const graph::Graph& graph, const Plan& plan,
                                      const Machine& machine, graph::MemoryPlan& memory) {
  RETURN_IF_ERROR(DataLossIfInvalid(graph::Verify(graph)));
  absl::StatusOr<CpuPlan> read = Decode(plan.bytes);
  RETURN_IF_ERROR(DataLossIfInvalid(read.status()));
  const auto checked = [&](const Program& program) -> absl::StatusOr<std::vector<Algorithm>> {
    RETURN_IF_ERROR(DataLossIfInvalid(CheckAlgorithms(program, read->algorithms)));
    return read->algorithms;
  };
  ASSIGN_OR_RETURN(BoundProgram bound, Bind(graph, graph::ExtractRecipes(graph), checked, machine));
  RETURN_IF_ERROR(lowering::CheckPlan(plan, read->memory, OwnBytes(graph, bound), bound));
  memory = std::move(read->memory);
  return bound;
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
  return absl::WrapUnique(new CpuBackend(options.device, std::move(arena), {kernels, threads}));
}

CpuBackend::CpuBackend(device::HostDevice* device, std::shared_ptr<Arena> arena, Machine machine)
    : device_(device != nullptr ? *device : device::Host()),
      arena_(std::move(arena)),
      machine_(machine) {
  target_.name = "cpu";
  target_.image_layout = graph::Layout::kNhwc;
  target_.fused.insert(lowering::FusedKinds().begin(), lowering::FusedKinds().end());
  target_.merge_linears = true;    // attention reads slices without copying them
  target_.batch_invariant = true;  // algorithms.h
}

std::string CpuBackend::Fingerprint() const {
  return absl::StrCat("cpu ", machine_.kernels->name, " threads-", machine_.threads, " ",
                      OneDnnName());
}

std::string CpuBackend::WeightFingerprint() const {
  return absl::StrCat("cpu ", machine_.kernels->name, " ", OneDnnName());
}

absl::StatusOr<Plan> CpuBackend::MakePlan(const graph::Graph& graph) const {
  CpuPlan plan;
  const auto choose = [&](const Program& program) -> absl::StatusOr<std::vector<Algorithm>> {
    return plan.algorithms = ChooseAlgorithms(program, machine_);
  };
  ASSIGN_OR_RETURN(const BoundProgram bound,
                   Bind(graph, graph::ExtractRecipes(graph), choose, machine_));
  ASSIGN_OR_RETURN(plan.memory, graph::PlanMemory(bound.values.values));
  return WithNeeds(plan, graph, bound);
}

void BringThreads(int threads) {
  const int all = std::min(threads, omp_get_thread_limit());
  omp_set_num_threads(all);
  omp_set_dynamic(0);
#pragma omp parallel num_threads(all)
  {}  // there is one of all of them
}

absl::Status CpuBackend::CheckPlan(const graph::Graph& graph, const Plan& plan) const {
  graph::MemoryPlan memory;
  return BindPlan(graph, plan, machine_, memory).status();
}

absl::StatusOr<std::unique_ptr<Executable>> CpuBackend::Load(
    std::shared_ptr<const graph::Graph> graph, const Plan& plan,
    const weights::WeightSet& weights) {
  const auto bind = [this](const graph::Graph& of, const Plan& as, graph::MemoryPlan& memory) {
    return BindPlan(of, as, machine_, memory);
  };
  ASSIGN_OR_RETURN(Programs::Program program, programs_.FindOrBind(graph, plan, bind));
  ASSIGN_OR_RETURN(std::unique_ptr<Arena::Lease> lease, arena_->Take(program->memory.arena_bytes));
  auto executable = std::make_unique<CpuExecutable>(std::move(program), std::move(lease),
                                                    machine_.threads, device_);
  RETURN_IF_ERROR(executable->HoldWeights(weights));
  return executable;
}

absl::StatusOr<size_t> CpuBackend::MakingBytes(const graph::Graph& recipe,
                                               absl::Span<const device::ConstBuffer> host_sources,
                                               const weights::WeightFormat& format) const {
  const ThreadCount threads(machine_.threads);
  return CatchOneDnn(kName,
                     [&] { return cpu::MakingBytes(recipe, host_sources, format, machine_); });
}

absl::Status CpuBackend::MakeWeight(const graph::Graph& recipe,
                                    absl::Span<const device::ConstBuffer> sources,
                                    absl::string_view form, const device::Buffer& to,
                                    device::Stream& stream) {
  std::vector<device::ConstBuffer> readable;
  for (const device::ConstBuffer& source : sources) readable.push_back(device_.Readable(source));
  static_cast<device::HostStream&>(stream).Push(
      [this, &recipe, sources = std::move(readable), form = std::string(form), to] {
        const absl::Span<char> memory(static_cast<char*>(device_.AddressOf(to)), to.bytes());
        const ThreadCount threads(machine_.threads);
        return CatchOneDnn(
            kName, [&] { return cpu::MakeWeight(recipe, sources, form, memory, machine_); });
      });
  return absl::OkStatus();
}

}  // namespace latentd::backends::cpu
