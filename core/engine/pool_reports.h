// Reports of several devices, as one: the status, graphs and memory of a DevicePool.
// A statement about one of them names it: "device 1: …".
//
// Pure functions. Lists are by device, in the order of their names; the devices are equal, so that
// a graph has the same id on each of them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/engine/engine.h"
#include "core/engine/graph_admin.h"

namespace latentd::engine {

// "device 1".
std::string DeviceName(int ordinal);

// The same status with the device's name in its message.
absl::Status OfDevice(absl::string_view device, const absl::Status& status);

// All but the times of `all`: its state is that of the device that is least far, or that has
// failed. A bucket is ready where it is on one of them, which requests go to then.
void MergeStatus(absl::Span<const std::string> devices, absl::Span<const ServerStatus> statuses,
                 ServerStatus& all);

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
