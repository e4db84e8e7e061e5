// The kernel's statistics of this process, from /proc/self/stat.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace latentd {

// In the kernel's units.
struct ProcessStat {
  int64_t cpu_ticks = 0;  // sum over all threads, user and system mode
  int64_t threads = 0;
  int64_t start_ticks = 0;  // since boot
  int64_t virtual_bytes = 0;
  int64_t resident_pages = 0;
};

// Parses /proc/PID/stat. Absent where the text is not in the kernel's format.
std::optional<ProcessStat> ParseProcessStat(absl::string_view text);

// Reads those of this process, now. Absent where the kernel does not report them.
std::optional<ProcessStat> ReadProcessStat();
std::optional<int64_t> ResidentBytes();

}  // namespace latentd
