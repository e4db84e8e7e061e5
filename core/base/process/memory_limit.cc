#include "core/base/process/memory_limit.h"

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/files/files.h"
#include "core/base/process/cgroup.h"

namespace latentd {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;

// Version 1 says "no limit" by LONG_MAX rounded down to a page.
constexpr int64_t kNoLimit = int64_t{1} << 60;

struct FileNames {
  absl::string_view limit, use, droppable;
};

FileNames NamesOf(int version) {
  if (version == 2) return {"memory.max", "memory.current", "inactive_file"};
  return {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
}

std::optional<int64_t> ParseInt(absl::string_view text) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return std::nullopt;
  return value;
}

// Memory left in one control group; nullopt without a limit.
std::optional<AvailableMemory> LeftIn(const CgroupDirectory& directory) {
  const auto read = [&](absl::string_view name) {
    return ReadFile(absl::StrCat(directory.path, "/", name), kMaxFileBytes).value_or("");
  };
  const FileNames names = NamesOf(directory.version);
  const std::optional<int64_t> limit = ParseMemoryLimit(read(names.limit));
  if (!limit) return std::nullopt;
  const int64_t use = ParseInt(read(names.use)).value_or(0);
  const int64_t droppable = ParseMemoryStat(read("memory.stat"), names.droppable).value_or(0);
  const int64_t bound_use = std::max<int64_t>(use - droppable, 0);
  return AvailableMemory{std::max<int64_t>(*limit - bound_use, 0),
                         absl::StrCat(directory.path, "/", names.limit)};
}

}  // namespace

AvailableMemory MeasureAvailableMemory() {
  const std::string meminfo = ReadFile("/proc/meminfo", kMaxFileBytes).value_or("");
  AvailableMemory least = {ParseMemAvailable(meminfo).value_or(std::numeric_limits<int64_t>::max()),
                           "MemAvailable of /proc/meminfo"};
  for (const CgroupDirectory& directory : OwnCgroupDirectories("memory")) {
    std::optional<AvailableMemory> left = LeftIn(directory);
    if (left && left->bytes < least.bytes) least = *std::move(left);
  }
  return least;
}

std::optional<int64_t> ParseMemAvailable(absl::string_view meminfo) {
  for (absl::string_view line : absl::StrSplit(meminfo, '\n')) {
    if (!absl::ConsumePrefix(&line, "MemAvailable:")) continue;
    absl::ConsumeSuffix(&line, "kB");
    const std::optional<int64_t> kibibytes = ParseInt(absl::StripAsciiWhitespace(line));
    if (!kibibytes || *kibibytes < 0 || *kibibytes >= kNoLimit / 1024) return std::nullopt;
    return *kibibytes * 1024;
  }
  return std::nullopt;
}

std::optional<int64_t> ParseMemoryLimit(absl::string_view text) {
  const std::optional<int64_t> bytes = ParseInt(absl::StripAsciiWhitespace(text));
  if (!bytes || *bytes < 0 || *bytes >= kNoLimit) return std::nullopt;
  return bytes;
}

std::optional<int64_t> ParseMemoryStat(absl::string_view text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> fields =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    if (fields.first == key) return ParseInt(absl::StripAsciiWhitespace(fields.second));
  }
  return std::nullopt;
}

}  // namespace latentd
