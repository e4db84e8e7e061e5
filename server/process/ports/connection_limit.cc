#include "server/process/ports/connection_limit.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <limits>

#include "absl/strings/str_cat.h"
#include "server/process/ports/plain_text_ports.h"

namespace latentd::server::process {
namespace {

// The system gives out the lowest descriptor that is free, so one above this says that as many
// others are open.
std::atomic<int> highest_descriptor = std::numeric_limits<int>::max();

// A connection beyond the limit is closed, and the next one looked at.
int AcceptWithinLimit(int listener, sockaddr* address, socklen_t* size, int flags, int& refused) {
  while (true) {
    const int accepted = static_cast<int>(syscall(SYS_accept4, listener, address, size, flags));
    if (accepted <= highest_descriptor) {
      NoteConnection(listener, accepted);
      return accepted;
    }
    close(accepted);
    ++refused;
  }
}

}  // namespace

absl::StatusOr<int> LimitConnections(int wanted) {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t needed = static_cast<rlim_t>(wanted) + kOtherDescriptors;
  if (limit.rlim_cur < needed) {
    limit.rlim_cur = std::min(needed, limit.rlim_max);
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  if (limit.rlim_cur <= kOtherDescriptors) {
    return absl::FailedPreconditionError(
        absl::StrCat("this process may open ", limit.rlim_cur, " files (ulimit -n), and needs ",
                     kOtherDescriptors, " and one for each connection"));
  }
  const rlim_t given = std::min(needed, limit.rlim_cur);
  // Descriptors below half of the reserve are taken to be open files, the other half stays free.
  highest_descriptor = static_cast<int>(given) - kOtherDescriptors / 2;
  return static_cast<int>(given) - kOtherDescriptors;
}

int Accept(int listener, int flags, int& refused) {
  return AcceptWithinLimit(listener, nullptr, nullptr, flags, refused);
}

}  // namespace latentd::server::process

// Stands before the C library's, for gRPC too: a symbol of the program goes before one of a shared
// library.
extern "C" int accept4(int listener, sockaddr* address, socklen_t* size, int flags) {
  int refused = 0;
  return latentd::server::process::AcceptWithinLimit(listener, address, size, flags, refused);
}
