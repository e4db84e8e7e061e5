// A file of a checkpoint that was read, and that may be edited or replaced while it is in use.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace latentd::weights {

// Reason of errors which say that a checkpoint was edited.
inline constexpr char kCheckpointChanged[] = "CHECKPOINT_CHANGED";

// Thread-safe.
class WatchedFile {
 public:
  virtual ~WatchedFile() = default;

  virtual const std::string& path() const = 0;

  // FAILED_PRECONDITION, reason CHECKPOINT_CHANGED: the file has, or may have, other content than
  // when it was opened; from then on for ever. Takes a system call; but where something about the
  // file changed that need not be its content (its owner, its times), it is read again, and it is
  // unchanged where what is read is.
  virtual absl::Status CheckUnchanged() const = 0;

  // True if the path leads to another file now, or to none. The opened one is intact then.
  virtual bool IsReplaced() const = 0;
};

// FAILED_PRECONDITION, reason CHECKPOINT_CHANGED.
absl::Status CheckpointChangedError(const std::string& path);

}  // namespace latentd::weights
