// Tells two contents of a file apart without reading them: by which file it is, and when it was
// changed last. A program can set a file's modification time back (touch -r, cp -p, rsync -t), but
// not its change time, which the kernel sets at each write. The change time moves with other
// changes too (of the owner, of the mode, of the number of hard links): equal identities mean equal
// contents, different ones need not mean different contents.
//
// Not seen: writes through a shared mapping of a file on tmpfs, which change no time.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/files/files.h"

namespace latentd::weights {

// File systems keep times as coarsely as 2 s (FAT; Linux's own: some milliseconds), so that a write
// within that time after another leaves no trace.
inline constexpr absl::Duration kSettled = absl::Seconds(2);

struct FileIdentity {
  uint64_t device = 0, inode = 0;
  int64_t bytes = 0;
  absl::Time modified, changed;

  bool operator==(const FileIdentity&) const = default;

  // All of it, with nanoseconds.
  std::string ToText() const;

  // True if every write after `now`, by the wall clock, gives the file another identity.
  bool IsSettled(absl::Time now) const { return changed + kSettled <= now; }
};

// Identity of an open file as it is now; `path` is for messages.
absl::StatusOr<FileIdentity> IdentityOf(const FileDescriptor& file, const std::string& path);

}  // namespace latentd::weights
