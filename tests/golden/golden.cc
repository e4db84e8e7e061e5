// Compares latentd with diffusers: see README.md in this directory.
#include <cstdio>
#include <memory>
#include <string>

#include "core/backends/cpu/cpu_backend.h"
#ifdef LATENTD_CUDA
#include "core/backends/cuda/cuda_backend.h"
#endif
#include "core/backends/reference/reference_backend.h"
#include "tests/golden/command_line.h"
#include "tests/golden/network_cases.h"
#include "tests/golden/picture_cases.h"
#include "tests/golden/report.h"
#include "tests/golden/token_cases.h"
#include "tests/golden/video_cases.h"

namespace latentd::golden {
namespace {

using BackendOr = absl::StatusOr<std::unique_ptr<backends::Backend>>;

BackendOr MakeBackend(const Options& options) {
  const std::string& name = options.backend;
  if (name == "cpu") return BackendOr(backends::cpu::CpuBackend::Create());
#ifdef LATENTD_CUDA
  if (name == "cuda") {
    return BackendOr(backends::cuda::CudaBackend::Create({.tf32 = options.tf32}));
  }
#endif
  if (name == "reference") return std::make_unique<backends::reference::ReferenceBackend>();
  return absl::UnimplementedError("this build has no such backend");
}

bool RunAll(const Options& options) {
  Report report;
  const BackendOr backend = MakeBackend(options);
  if (!backend.ok()) {
    report.Failed("backend " + options.backend, backend.status());
    return report.Finish();
  }
  if (options.only.contains("tokens")) RunTokenCases(options, report);
  if (options.only.contains("networks")) RunNetworkCases(options, **backend, report);
  if (options.only.contains("pictures")) RunPictureCases(options, **backend, report);
  if (options.only.contains("videos")) RunVideoCases(options, **backend, report);
  return report.Finish();
}

}  // namespace
}  // namespace latentd::golden

int main(int argc, char** argv) {
  const auto options = latentd::golden::ParseCommandLine({argv + 1, static_cast<size_t>(argc - 1)});
  if (!options.ok()) {
    const std::string message(options.status().message());
    std::fprintf(stderr, "golden: %s\n%s", message.c_str(), latentd::golden::kUsage);
    return 2;
  }
  return latentd::golden::RunAll(*options) ? 0 : 1;
}
