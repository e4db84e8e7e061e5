// When freed memory goes back to the system. malloc keeps it, in pieces between what is in use:
// what a crowd of clients had under way would otherwise stay with the process after they have left.
//
// The next pictures pay for the pages that they get anew, so it is done where it is worth that:
// connections have been closed, a while ago so that what they held is free, and malloc keeps far
// more than it did the last time.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace latentd::server::process {

// Not thread-safe.
class HeapTrim {
 public:
  struct Usage {
    int64_t open_files = 0;  // connections among them
    int64_t kept_bytes = 0;  // held by the process, and not allocated
  };

  // To be asked every second or so; `now` is monotonic.
  bool IsDue(absl::Time now, const Usage& usage);

  // It has been done, and this much is kept.
  void Done(int64_t kept_bytes);

 private:
  int64_t kept_bytes_ = 0;  // after the last one
  int64_t open_files_ = 0;  // the last time that it was asked
  // When files were closed since the last one; in the future: none were.
  absl::Time first_closed_ = absl::InfiniteFuture(), last_closed_ = absl::InfiniteFuture();
};

// Does it where it is due. For one thread.
void TrimHeapIfDue(HeapTrim& trim, absl::Time now);

}  // namespace latentd::server::process
