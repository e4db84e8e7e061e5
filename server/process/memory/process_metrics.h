// The kernel's figures for this process (/proc), and the process_* metrics that every Prometheus
// client exports.
//
// Thread-safe: free functions without state.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"

namespace latentd::server::process {

// Reads from /proc/stat when the machine was started, in seconds since 1970.
std::optional<int64_t> ParseBootTime(absl::string_view text);

// Open files of this process, now. Absent where the kernel does not tell.
std::optional<int64_t> CountOpenFiles();

// The same, ProcessStat and more; what the kernel does not tell is left out.
std::vector<prometheus::MetricFamily> CollectProcessMetrics();

}  // namespace latentd::server::process
