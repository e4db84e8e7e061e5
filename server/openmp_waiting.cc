#include "server/openmp_waiting.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace latentd::server {
namespace {

constexpr char kSpinCount[] = "300";  // about a microsecond

}  // namespace

void ShortenOpenMpSpinning(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  std::error_code error;
  // By its own path, so that the process keeps its name.
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return;
  setenv("GOMP_SPINCOUNT", kSpinCount, /*overwrite=*/1);
  execv(program.c_str(), argv);
}

}  // namespace latentd::server
