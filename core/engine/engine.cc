#include "core/engine/engine.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/backends/cpu/cpu_backend.h"
#ifdef LATENTD_CUDA
#include "core/backends/cuda/cuda_backend.h"
#endif
#include "core/backends/reference/reference_backend.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/compiler/compile.h"
#include "core/engine/api/threads_needed.h"
#include "core/engine/local_engine.h"
#include "core/pipeline/spec/presets.h"
#include "core/schedulers/config.h"

namespace latentd::engine {
namespace {

// The reference backend computes on the host, and weights are where the backend computes.
absl::Status CheckComponentsOnGpu(const Config& config) {
  if (config.backend != "cuda") return absl::OkStatus();
  for (const auto& [component, mode] : config.components) {
    if (mode != ComponentMode::kReference) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "components: ", component, "=reference: with the cuda backend it is compiled or off"));
  }
  return absl::OkStatus();
}

absl::Status CheckDevices(const Config& config) {
  if (config.devices.empty()) return absl::OkStatus();
  if (config.backend != "cuda") {
    return absl::InvalidArgumentError(
        absl::StrCat("devices: only with the cuda backend, not with ", Excerpt(config.backend)));
  }
  const std::set<int> different(config.devices.begin(), config.devices.end());
  if (different.size() == config.devices.size() && *different.begin() >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError("devices: must be numbers of GPUs from 0 on, each once");
}

absl::Status CheckTf32(const Config& config) {
  if (!config.tf32 || config.backend == "cuda") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tf32: only with the cuda backend, not with ", Excerpt(config.backend)));
}

absl::Status CheckScheduler(const Config& config) {
  if (config.scheduler.empty()) return absl::OkStatus();
  const absl::Status known = schedulers::CheckSchedulerName(config.scheduler);
  if (known.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("scheduler: ", known.message()));
}

absl::Status CheckPreset(const Config& config) {
  if (config.preset.empty()) return absl::OkStatus();
  const absl::Status known = pipeline::CheckPresetName(config.preset);
  if (known.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("preset: ", known.message()));
}

absl::Status CheckForm(const Config& config) {
  RETURN_IF_ERROR(CheckDevices(config));
  RETURN_IF_ERROR(CheckTf32(config));
  const auto wrong = [](int rows) { return rows < 1 || rows > kMostRows; };
  const auto draws = [](int rows) { return rows <= kMaxRowsOfPicture; };
  if ((!config.rows.empty() && std::none_of(config.rows.begin(), config.rows.end(), draws)) ||
      std::any_of(config.rows.begin(), config.rows.end(), wrong)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows: must be some of 1 to ", kMostRows, ", 1 or 2 among them"));
  }
  RETURN_IF_ERROR(CheckScheduler(config));
  RETURN_IF_ERROR(CheckPreset(config));
  RETURN_IF_ERROR(pipeline::CheckComponents(
      config.components,
      pipeline::ModelTable::FromFlags(config.base, config.refiner, config.models)));
  RETURN_IF_ERROR(CheckComponentsOnGpu(config));
  return compiler::CheckOptions(
      {.skipped_passes = {config.skipped_passes.begin(), config.skipped_passes.end()}});
}

absl::StatusOr<std::unique_ptr<backends::Backend>> MakeCudaBackend(
    [[maybe_unused]] const Config& config, [[maybe_unused]] int ordinal) {
#ifdef LATENTD_CUDA
  std::vector<std::string> trial_command = config.trial_command;
  if (!trial_command.empty()) trial_command.push_back(absl::StrCat(ordinal));
  return backends::cuda::CudaBackend::Create(
      {.ordinal = ordinal, .trial_command = std::move(trial_command), .tf32 = config.tf32});
#else
  return absl::InvalidArgumentError(
      "backend cuda: this build has none; build with deploy/dependencies --cuda and deploy/build "
      "--cuda, or take the image that deploy/image --cuda makes");
#endif
}

// More threads than CPUs would wait for each other in every kernel.
void WarnOfThreads(const Config& config) {
  const int threads = ComputingThreads(config);
  if (config.threads <= threads || !config.warn) return;
  config.warn(absl::StrCat("computes with ", threads, " threads instead of ", config.threads,
                           ": it may use no more CPUs (affinity mask and control group)"));
}

absl::StatusOr<std::unique_ptr<backends::Backend>> MakeBackend(const Config& config) {
  if (config.backend == "cpu") {
    WarnOfThreads(config);
    return backends::cpu::CpuBackend::Create(
        {.threads = ComputingThreads(config), .memory_bytes = config.memory_bytes});
  }
  if (config.backend == "cuda") {
    return MakeCudaBackend(config, config.devices.empty() ? 0 : config.devices.front());
  }
  if (config.backend == "reference") {
    return std::make_unique<backends::reference::ReferenceBackend>();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("backend ", Excerpt(config.backend), ": must be cpu, cuda or reference"));
}

void WarnOfSlowPrecision(const Config& config) {
  if (config.backend != "cpu" || !config.warn) return;
  std::set<device::DType> wanted;
  for (const auto& [component, dtype] : config.precision) wanted.insert(dtype);
  if (wanted.contains(device::DType::kF16)) {
    config.warn("fp16 is neither smaller nor faster than fp32 on a CPU");
  }
  if (wanted.contains(device::DType::kBF16) && !backends::cpu::HasFastBf16()) {
    config.warn(
        "bf16 is smaller than fp32 and slower on this machine, which has no AMX or does not grant "
        "it");
  }
}

void GiveUpGpu([[maybe_unused]] int ordinal) {
#ifdef LATENTD_CUDA
  backends::cuda::GiveUp(ordinal);
#endif
}

absl::StatusOr<std::vector<LocalEngine::Device>> MakeDevices(const Config& config) {
  std::vector<LocalEngine::Device> devices;
  if (config.devices.size() <= 1) {
    ASSIGN_OR_RETURN(std::unique_ptr<backends::Backend> backend, MakeBackend(config));
    devices.push_back({.ordinal = config.devices.empty() ? 0 : config.devices.front(),
                       .backend = std::move(backend)});
    return devices;
  }
  for (int ordinal : config.devices) {
    ASSIGN_OR_RETURN(std::unique_ptr<backends::Backend> backend, MakeCudaBackend(config, ordinal));
    devices.push_back({ordinal, std::move(backend), [ordinal] { GiveUpGpu(ordinal); }});
  }
  return devices;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(Config config, const Clock& clock) {
  RETURN_IF_ERROR(CheckForm(config));
  ASSIGN_OR_RETURN(std::vector<LocalEngine::Device> devices, MakeDevices(config));
  WarnOfSlowPrecision(config);
  return LocalEngine::Create(config, std::move(devices), clock);
}

int TryKernels([[maybe_unused]] int ordinal) {
#ifdef LATENTD_CUDA
  return backends::cuda::RunTrialProgram(ordinal);
#else
  return 1;
#endif
}

}  // namespace latentd::engine
