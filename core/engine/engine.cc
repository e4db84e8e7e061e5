#include "core/engine/engine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/reference_backend.h"
#include "core/base/threads.h"
#include "core/engine/local_engine.h"

namespace latentd::engine {
namespace {

absl::StatusOr<std::unique_ptr<backends::Backend>> MakeBackend(const Config& config) {
  const int threads = config.threads > 0 ? config.threads : UsableCpus();
  if (config.backend == "cpu") return backends::cpu::CpuBackend::Create({.threads = threads});
  if (config.backend == "reference") {
    return std::make_unique<backends::reference::ReferenceBackend>();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("backend ", Excerpt(config.backend), ": must be cpu or reference"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(Config config, const Clock& clock) {
  absl::StatusOr<std::unique_ptr<backends::Backend>> backend = MakeBackend(config);
  if (!backend.ok()) return backend.status();
  return std::make_unique<LocalEngine>(std::move(config), *std::move(backend), clock);
}

}  // namespace latentd::engine
