// Files that survive a restart: bytes under a key, each in a file of its own with a header that
// says what it is (FORMAT.md). Knows bytes, not graphs.
//
// What is promised: a reader sees a whole entry or none (temporary file, fsync, rename, fsync of
// the directory); a key is compared in full, not by its digest; a damaged file is set aside in
// quarantine/ and reported, never read again, never deleted by itself before the budget asks for
// it; several processes may use one directory at a time (a lock file orders what they change); what
// has not been used for longest leaves when the budget is passed, pinned entries never; an entry
// that was given out stays mapped and readable after it has left.
//
// Nothing here ends the service: a directory that cannot be used, a full disk, a read-only file
// system are statuses that the caller logs and counts. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/digest.h"
#include "core/base/mapped_file.h"
#include "core/metrics/registry.h"

namespace latentd::cache {

// What an entry holds; a directory of its own for each. One row in disk_cache.cc names them.
enum class Kind : uint8_t { kArtifact, kPackedWeight, kSelection, kTensorDigests };

// Bytes of one entry, mapped. Copies share the mapping.
class Entry {
 public:
  Entry(std::shared_ptr<const MappedFile> file, absl::string_view payload)
      : file_(std::move(file)), payload_(payload) {}

  // Aligned to 4096 bytes.
  absl::string_view payload() const { return payload_; }
  std::shared_ptr<const void> owner() const { return file_; }

 private:
  std::shared_ptr<const MappedFile> file_;
  absl::string_view payload_;
};

struct EntryInfo {
  Kind kind = Kind::kArtifact;
  Digest digest;  // of the key: what names the file
  std::string key;
  int64_t bytes = 0;  // of the file
  absl::Time last_use;
  bool pinned = false;
};

class DiskCache {
 public:
  struct Options {
    std::string directory;
    int64_t max_bytes = int64_t{10} << 30;
  };

  // Makes the directory (0700) where there is none, removes temporary files that no process writes
  // any more, and evicts down to the budget. An error says why the directory cannot be used; a
  // directory that can be read and not written is no error: Write then fails. `clock` and
  // `registry` must outlive the cache.
  static absl::StatusOr<std::unique_ptr<DiskCache>> Open(const Options& options, const Clock& clock,
                                                         metrics::Registry& registry);

  // NOT_FOUND: there is none. DATA_LOSS: there was one, it is damaged and now in quarantine; the
  // message says what is wrong with it. Reading marks the entry as used now.
  absl::StatusOr<Entry> Read(Kind kind, absl::string_view key);

  // Reads again from disk and checks everything, as Read does, without marking it used.
  absl::Status Verify(Kind kind, absl::string_view key);

  // Replaces what is there. RESOURCE_EXHAUSTED: no room on the disk or in the budget (an entry
  // larger than the whole budget); PERMISSION_DENIED, UNAVAILABLE: cannot be written.
  absl::Status Write(Kind kind, absl::string_view key, absl::string_view payload);

  // OK too if there is none.
  absl::Status Remove(Kind kind, absl::string_view key);

  // A pinned entry is never evicted; pins survive restarts. NOT_FOUND if there is no such entry.
  absl::Status SetPinned(Kind kind, absl::string_view key, bool pinned);

  bool Contains(Kind kind, absl::string_view key) const;
  // Every entry of the kind, most recently used first; damaged ones are left out.
  std::vector<EntryInfo> List(Kind kind) const;

  // Of all files together.
  int64_t bytes() const;
  int64_t max_bytes() const { return options_.max_bytes; }
  const std::string& directory() const { return options_.directory; }

 private:
  DiskCache(Options options, const Clock& clock, metrics::Registry& registry);

  const Options options_;
  const Clock& clock_;
  metrics::Registry& registry_;
  mutable absl::Mutex mutex_;
};

}  // namespace latentd::cache
