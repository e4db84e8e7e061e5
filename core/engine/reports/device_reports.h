// Reports of several devices, as one: their graphs and memory. A statement about one of them names
// it: "device 1: ...".
//
// Pure functions. Lists are by device, in the order of their names; the devices are equal, so that
// a graph has the same id on each of them. The only device of an engine has no name.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/engine/api/graph_admin.h"

namespace latentd::engine {

// The same status with the device's name in its message.
absl::Status OfDevice(absl::string_view device, const absl::Status& status);

// Each graph once. It is as far as on the device where it is least far; bytes and hits are sums.
std::vector<GraphEntry> MergeEntries(absl::Span<const std::string> devices,
                                     absl::Span<const std::vector<GraphEntry>> entries);

// Each graph once; a failure is that of the first device where it failed.
std::vector<EntryResult> MergeResults(absl::Span<const std::string> devices,
                                      absl::Span<const std::vector<EntryResult>> results);

MemoryPrediction Sum(const MemoryPrediction& a, const MemoryPrediction& b);

// Sums, but for what is the process's or the host's. With each device's own memory by its name.
MemoryReport MergeReports(absl::Span<const std::string> devices,
                          absl::Span<const MemoryReport> reports);

}  // namespace latentd::engine
