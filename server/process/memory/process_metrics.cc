#include "server/process/memory/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/files/files.h"
#include "core/base/process/process_stat.h"

namespace latentd::server::process {
namespace {

using prometheus::MetricType;

// /proc/stat has a number for every interrupt of the machine.
constexpr size_t kMaxProcFile = 4 << 20;

std::string ReadProcFile(const std::string& path) {
  return ReadFile(path, kMaxProcFile).value_or("");
}

std::optional<double> MaxFiles() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  return static_cast<double>(limit.rlim_cur);
}

class Families {
 public:
  void Add(const char* name, const char* help, MetricType type, std::optional<double> value) {
    if (!value) return;
    prometheus::ClientMetric metric;
    metric.counter.value = *value;
    metric.gauge.value = *value;
    families_.push_back({name, help, type, {metric}});
  }

  std::vector<prometheus::MetricFamily> Take() && { return std::move(families_); }

 private:
  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace

std::optional<int64_t> ParseBootTime(absl::string_view text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    int64_t seconds = 0;
    if (absl::ConsumePrefix(&line, "btime ") && absl::SimpleAtoi(line, &seconds)) return seconds;
  }
  return std::nullopt;
}

std::optional<int64_t> CountOpenFiles() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error) return std::nullopt;
  // Less the one that lists them.
  return std::distance(begin(files), end(files)) - 1;
}

std::vector<prometheus::MetricFamily> CollectProcessMetrics() {
  const std::optional<ProcessStat> stat = ReadProcessStat();
  const std::optional<int64_t> boot = ParseBootTime(ReadProcFile("/proc/stat"));
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto of_stat = [&](int64_t ProcessStat::*field, double unit) {
    return stat ? std::optional<double>((*stat).*field * unit) : std::nullopt;
  };
  std::optional<double> start = of_stat(&ProcessStat::start_ticks, tick);
  if (start) start = boot ? std::optional<double>(*start + *boot) : std::nullopt;

  Families families;
  families.Add("process_cpu_seconds_total", "CPU time used, in user and system mode.",
               MetricType::Counter, of_stat(&ProcessStat::cpu_ticks, tick));
  families.Add("process_resident_memory_bytes", "Memory in use, by the kernel's count.",
               MetricType::Gauge, of_stat(&ProcessStat::resident_pages, getpagesize()));
  families.Add("process_virtual_memory_bytes", "Address space in use.", MetricType::Gauge,
               of_stat(&ProcessStat::virtual_bytes, 1));
  families.Add("process_start_time_seconds", "When the process was started.", MetricType::Gauge,
               start);
  families.Add("process_open_fds", "File descriptors that are open.", MetricType::Gauge,
               CountOpenFiles());
  families.Add("process_max_fds", "File descriptors that may be open.", MetricType::Gauge,
               MaxFiles());
  families.Add("process_threads", "Threads.", MetricType::Gauge, of_stat(&ProcessStat::threads, 1));
  return std::move(families).Take();
}

}  // namespace latentd::server::process
