#include <cstring>

#include "core/backends/cpu/kernels/kernel_table.h"

namespace latentd::backends::cpu {

#if defined(__x86_64__)
namespace avx512 {
const KernelTable& Table();
}
namespace avx2 {
const KernelTable& Table();
}
#endif
namespace baseline {
const KernelTable& Table();
}

namespace {

// The builtin asks cpuid, and xgetbv for whether the system saves the registers.
const KernelTable* Best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return &avx512::Table();
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &avx2::Table();
#endif
  return &baseline::Table();
}

}  // namespace

const KernelTable& KernelsOfThisMachine() {
  static const KernelTable* const table = Best();
  return *table;
}

const KernelTable* KernelsByName(const char* name) {
  const KernelTable& best = KernelsOfThisMachine();
  if (std::strcmp(name, "baseline") == 0) return &baseline::Table();
#if defined(__x86_64__)
  const bool avx512_runs = std::strcmp(best.name, "avx512") == 0;
  if (std::strcmp(name, "avx512") == 0 && avx512_runs) return &avx512::Table();
  if (std::strcmp(name, "avx2") == 0 && (avx512_runs || std::strcmp(best.name, "avx2") == 0)) {
    return &avx2::Table();
  }
#endif
  return nullptr;
}

}  // namespace latentd::backends::cpu
