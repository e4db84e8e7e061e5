#include "core/backends/cuda/cuda_backend.h"

#include <unistd.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/backends/cuda/plan.h"
#include "core/base/errors/status_macros.h"
#include "core/device/cuda/cuda_status.h"
#include "core/device/cuda/cuda_stream.h"
#include "core/graph/target.h"
#include "core/graph/verifier.h"

namespace latentd::backends::cuda {

using lowering::DataLossIfInvalid;

namespace {

// The graph as the plan says, once the two have been checked against each other.
absl::StatusOr<BoundProgram> BindPlan(const graph::Graph& graph, const Plan& plan, const Gpu& gpu,
                                      graph::MemoryPlan& memory) {
  RETURN_IF_ERROR(DataLossIfInvalid(graph::Verify(graph)));
  absl::StatusOr<CudaPlan> read = Decode(plan.bytes);
  RETURN_IF_ERROR(DataLossIfInvalid(read.status()));
  absl::StatusOr<BoundProgram> bound =
      Bind(graph, graph::ExtractRecipes(graph), Chooser::LookingUp(read->choices), gpu);
  RETURN_IF_ERROR(DataLossIfInvalid(bound.status()));
  RETURN_IF_ERROR(DataLossIfInvalid(CheckPlaces(read->memory)));
  RETURN_IF_ERROR(lowering::CheckPlan(plan, read->memory, OwnBytes(graph, *bound), *bound));
  memory = std::move(read->memory);
  return bound;
}

}  // namespace

void GiveUp(int ordinal) { device::cuda::GiveUp(ordinal); }

absl::StatusOr<std::unique_ptr<CudaBackend>> CudaBackend::Create(CudaOptions options) {
  ASSIGN_OR_RETURN(std::unique_ptr<device::cuda::CudaDevice> device,
                   device::cuda::CudaDevice::Open(options.ordinal));
  auto findings = std::make_unique<Findings>();
  ASSIGN_OR_RETURN(std::unique_ptr<CublasLt> cublas_lt, CublasLt::Open());
  ASSIGN_OR_RETURN(std::unique_ptr<Cudnn> cudnn, Cudnn::Open([findings = findings.get()] {
                     findings->Count(KernelWork::kPlanRestored);
                   }));
  ASSIGN_OR_RETURN(std::unique_ptr<CudaExecutable::Launcher> launcher,
                   CudaExecutable::Launcher::Create());
  const auto bytes = static_cast<size_t>(device->properties().memory_bytes);
  ASSIGN_OR_RETURN(std::shared_ptr<Arena> arena, Arena::Reserve(*device, bytes));
  auto backend = absl::WrapUnique(
      new CudaBackend(std::move(device), std::move(findings), std::move(cublas_lt),
                      std::move(cudnn), std::move(launcher), std::move(arena), options.tf32));
  if (!options.trial_command.empty()) backend->StartTrialsBy(std::move(options.trial_command));
  return backend;
}

CudaBackend::CudaBackend(std::unique_ptr<device::cuda::CudaDevice> device,
                         std::unique_ptr<Findings> findings, std::unique_ptr<CublasLt> cublas_lt,
                         std::unique_ptr<Cudnn> cudnn,
                         std::unique_ptr<CudaExecutable::Launcher> launcher,
                         std::shared_ptr<Arena> arena, bool tf32)
    : device_(std::move(device)),
      findings_(std::move(findings)),
      cublas_lt_(std::move(cublas_lt)),
      cudnn_(std::move(cudnn)),
      launcher_(std::move(launcher)),
      arena_(std::move(arena)),
      tf32_(tf32) {
  target_.name = "cuda";
  target_.image_layout = graph::Layout::kNhwc;
  target_.fused = {graph::kConv2dEpilogue,   graph::kLinearEpilogue,  graph::kF8LinearEpilogue,
                   graph::kF8Conv2dEpilogue, graph::kLinearGeglu,     graph::kLayerNormF8,
                   graph::kGegluF8,          graph::kAttentionF8,     graph::kF8LinearGeglu,
                   graph::kGroupNormSilu,    graph::kGroupNormSiluF8, graph::kUpsampleConv2d};
  target_.merge_linears = true;  // attention reads slices without copying them
  target_.moves_upsample_bias = true;
}

void CudaBackend::StartTrialsBy(std::vector<std::string> command) {
  Findings& findings = *findings_;
  trials_ = std::make_unique<TrialProcess>(
      TrialProcess::Options{.command = std::move(command),
                            .on_fault = [&findings] { findings.Count(KernelWork::kTrialFault); },
                            .warn = [&findings](absl::string_view what) { findings.Warn(what); }});
}

std::string FingerprintOf(const device::cuda::CudaProperties& gpu, size_t cublas_lt, size_t cudnn,
                          bool tf32) {
  return absl::StrCat("cuda ", gpu.name, " sm-", gpu.compute_capability, " multiprocessors-",
                      gpu.multiprocessors, " memory-", gpu.memory_bytes, " driver-",
                      gpu.driver_version, " runtime-", gpu.runtime_version, " cublas-", cublas_lt,
                      " cudnn-", cudnn, tf32 ? " tf32" : "");
}

std::string CudaBackend::Fingerprint() const {
  return FingerprintOf(device_->properties(), cublas_lt_->version(), cudnn_->version(), tf32_);
}

std::string CudaBackend::WeightFingerprint() const {
  return absl::StrCat("cuda sm-", device_->properties().compute_capability, " cublas-",
                      cublas_lt_->version());
}

absl::StatusOr<Plan> CudaBackend::MakePlan(const graph::Graph& graph) const {
  RETURN_IF_ERROR(device_->Select());
  CudaPlan plan;
  ASSIGN_OR_RETURN(const BoundProgram bound,
                   Bind(graph, graph::ExtractRecipes(graph),
                        Chooser::Choosing(*findings_, plan.choices), gpu()));
  ASSIGN_OR_RETURN(plan.memory, graph::PlanMemory(bound.values.values));
  return lowering::WithNeeds(Encode(plan), plan.memory, OwnBytes(graph, bound), bound);
}

absl::Status CudaBackend::CheckPlan(const graph::Graph& graph, const Plan& plan) const {
  RETURN_IF_ERROR(device_->Select());
  graph::MemoryPlan memory;
  return BindPlan(graph, plan, gpu(), memory).status();
}

absl::StatusOr<std::unique_ptr<Executable>> CudaBackend::Load(
    std::shared_ptr<const graph::Graph> graph, const Plan& plan,
    const weights::WeightSet& weights) {
  RETURN_IF_ERROR(device_->Select());
  const auto bind = [this](const graph::Graph& of, const Plan& as, graph::MemoryPlan& memory) {
    return BindPlan(of, as, gpu(), memory);
  };
  ASSIGN_OR_RETURN(Programs::Program program, programs_.FindOrBind(graph, plan, bind));
  ASSIGN_OR_RETURN(std::unique_ptr<Arena::Lease> lease, arena_->Take(program->memory.arena_bytes));
  return CudaExecutable::Create(std::move(program), std::move(lease), weights, *device_,
                                *launcher_);
}

absl::StatusOr<size_t> CudaBackend::MakingBytes(const graph::Graph& recipe,
                                                absl::Span<const device::ConstBuffer>,
                                                const weights::WeightFormat& format) const {
  RETURN_IF_ERROR(device_->Select());
  return cuda::MakingBytes(recipe, format, gpu(), recipes_);
}

absl::Status CudaBackend::MakeWeight(const graph::Graph& recipe,
                                     absl::Span<const device::ConstBuffer> sources,
                                     absl::string_view form, const device::Buffer& to,
                                     device::Stream& stream) {
  RETURN_IF_ERROR(device_->Select());
  cudaStream_t on = static_cast<device::cuda::CudaStream&>(stream).handle();
  return cuda::MakeWeight(recipe, sources, form, to, gpu(), recipes_, on);
}

int RunTrialProgram(int ordinal) {
  const auto device = device::cuda::CudaDevice::Open(ordinal);
  if (!device.ok() || !(*device)->Select().ok()) return 1;
  // After the device: the library loses memory where there is none.
  const auto library = CublasLt::Open();
  if (!library.ok()) return 1;
  return ServeTrials(STDIN_FILENO, [&](const ProductShape& shape, const TrialWatch& watch) {
    return (*library)->Choose(shape, watch);
  });
}

}  // namespace latentd::backends::cuda
