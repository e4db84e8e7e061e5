// Directories with the limits of this process's control groups (version 1, 2 or both).
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace latentd {

struct CgroupDirectory {
  std::string path;
  int version = 2;
  bool operator==(const CgroupDirectory&) const = default;
};

// The directories whose limits bind a process, from its own group up to the root, for a controller
// ("cpu", "memory"): of version 1 where that has the controller, and of version 2. `membership` is
// the text of /proc/PID/cgroup. Some may not exist: inside a container the text may show the host's
// names while only the container's own group is mounted, at the root; so readers skip what is not
// there.
std::vector<CgroupDirectory> CgroupDirectories(absl::string_view membership,
                                               absl::string_view controller);

// The same for this process.
std::vector<CgroupDirectory> OwnCgroupDirectories(absl::string_view controller);

}  // namespace latentd
