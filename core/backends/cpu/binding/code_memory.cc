#include "core/backends/cpu/binding/code_memory.h"

#include <sys/mman.h>

#include <cstddef>

#include "core/base/errors/error_details.h"

namespace latentd::backends::cpu {
namespace {

// The code of one has at most some hundred KiB; other threads generate theirs meanwhile.
constexpr size_t kBytes = size_t{16} << 20;

}  // namespace

absl::Status CheckCodeMemory() {
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return WithReason(absl::ResourceExhaustedError(
                          "no memory for generated code: the process is at a limit (ulimit -d, "
                          "ulimit -v) or the machine has none left"),
                      "OUT_OF_MEMORY");
  }
  munmap(memory, kBytes);
  return absl::OkStatus();
}

}  // namespace latentd::backends::cpu
