// How much memory this process can still get, so that what cannot fit is refused before it is
// begun.
//
// Thread-safe: free functions without state. Parsing takes text, so that tests need no machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace latentd {

struct AvailableMemory {
  int64_t bytes = 0;
  std::string source;  // the bound's origin, for messages: "MemAvailable of /proc/meminfo", or the
                       // cgroup's file
};

// The least of what the kernel calls available and what each enclosing control group has left: its
// limit less its use, in which file pages that the kernel can drop do not count.
AvailableMemory MeasureAvailableMemory();

// "MemAvailable:  123 kB" in the text of /proc/meminfo, in bytes.
std::optional<int64_t> ParseMemAvailable(absl::string_view meminfo);

// memory.max or memory.limit_in_bytes; nullopt: "max", or the huge number that means no limit in
// version 1, or not a number.
std::optional<int64_t> ParseMemoryLimit(absl::string_view text);

// The value of `key` in the text of memory.stat, whose lines are "key value".
std::optional<int64_t> ParseMemoryStat(absl::string_view text, absl::string_view key);

}  // namespace latentd
