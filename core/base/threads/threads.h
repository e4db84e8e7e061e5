// How many threads are worth starting, starting them, and their names.
//
// Thread-safe: free functions without state.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"

namespace latentd {

// CPUs that this process may use: the affinity mask, cut to the cgroup's CPU quota. A quota of 2.5
// counts as 2, since a third thread would be stopped for half of each period and the others wait
// for it. At least 1.
int UsableCpus();

// CPUs that a quota allows; nullopt: no limit, or not such a text.
// Version 2, cpu.max: "150000 100000" or "max 100000".
std::optional<double> ParseCpuMax(absl::string_view text);
// Version 1, cpu.cfs_quota_us and cpu.cfs_period_us: "150000" and "100000", "-1" without a limit.
std::optional<double> ParseCfsQuota(absl::string_view quota, absl::string_view period);

// A thread of that name (the kernel keeps 15 bytes) that runs `body`. A process that gets no thread
// ends here, with exit code 1 and a line that names the limits: what needs the thread cannot do
// without. So start threads at the start, not when there is work to lose.
std::thread StartThread(std::string name, std::function<void()> body);

// Names the calling thread in `top` and debuggers; the kernel keeps 15 bytes.
void NameThisThread(absl::string_view name);

}  // namespace latentd
