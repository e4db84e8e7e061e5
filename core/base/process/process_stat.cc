#include "core/base/process/process_stat.h"

#include <unistd.h>

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "core/base/files/files.h"

namespace latentd {
namespace {

constexpr size_t kMaxStatBytes = 4096;

// Fields of /proc/PID/stat after the name, as proc(5) counts them, from 3 on.
constexpr size_t kFirstField = 3, kUserTicks = 14, kSystemTicks = 15, kThreads = 20,
                 kStartTicks = 22, kVirtualBytes = 23, kResidentPages = 24;

}  // namespace

std::optional<ProcessStat> ParseProcessStat(absl::string_view text) {
  // The name is in parentheses, and may hold any character.
  const size_t name_end = text.rfind(") ");
  if (name_end == text.npos) return std::nullopt;
  const std::vector<absl::string_view> fields = absl::StrSplit(text.substr(name_end + 2), ' ');
  const auto read = [&](size_t field, int64_t& value) {
    return field - kFirstField < fields.size() &&
           absl::SimpleAtoi(fields[field - kFirstField], &value);
  };
  ProcessStat stat;
  int64_t user = 0, system = 0;
  if (!read(kUserTicks, user) || !read(kSystemTicks, system) || !read(kThreads, stat.threads) ||
      !read(kStartTicks, stat.start_ticks) || !read(kVirtualBytes, stat.virtual_bytes) ||
      !read(kResidentPages, stat.resident_pages)) {
    return std::nullopt;
  }
  stat.cpu_ticks = user + system;
  return stat;
}

std::optional<ProcessStat> ReadProcessStat() {
  return ParseProcessStat(ReadFile("/proc/self/stat", kMaxStatBytes).value_or(""));
}

std::optional<int64_t> ResidentBytes() {
  const std::optional<ProcessStat> stat = ReadProcessStat();
  if (!stat) return std::nullopt;
  return stat->resident_pages * getpagesize();
}

}  // namespace latentd
