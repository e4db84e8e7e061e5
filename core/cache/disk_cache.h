// Files that survive a restart: bytes under a key, each in a file of its own with a header that
// says what it is (FORMAT.md). Knows bytes, not graphs.
//
// Promises: a reader sees a whole entry or none (temporary file, fsync, rename, fsync of the
// directory); a key is compared in full, not by its digest; a damaged file is set aside in
// quarantine/ and reported, never read again, never deleted by itself before the budget asks for
// it; one that cannot be set aside is no entry any more until it is replaced; several processes may
// use one directory at a time (a lock file orders what they change); when the budget is passed,
// packed weights are evicted before anything else, then the least recently used entries, pinned
// ones never; an entry that was given out stays mapped and readable after its eviction.
//
// A packed weight evicts only those that were last used before this cache was opened: a model whose
// weights are larger than the budget would otherwise write all of them at every start, each in the
// place of one that the next start wants.
//
// Every Read checks the checksum over the whole payload, also of large packed weights: it runs at
// the speed of memory, brings in from disk the pages that are wanted next anyway, and is all that
// stands between a flipped bit and a wrong picture.
//
// "Used" is ordered by the wall clock, and never goes back when that does: an entry that is used
// now is newer than all that this process has seen.
//
// Nothing here ends the service: a directory that cannot be used, a full disk, a read-only file
// system are statuses that the caller logs and counts. Two things would, and are the owner's to
// prevent: SIGXFSZ where the process may only write files of a limited size (ignore it in main),
// and another process that cuts a mapped file short (MappedFile); latentd only replaces files by
// rename. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/files/mapped_file.h"
#include "core/base/text/digest.h"
#include "core/cache/cache_directory.h"
#include "core/cache/entry_file.h"
#include "core/metrics/registry.h"

namespace latentd::cache {

// Bytes of one entry, mapped. Copies share the mapping.
class Entry {
 public:
  Entry(std::shared_ptr<const MappedFile> file, const ParsedEntry& parsed)
      : file_(std::move(file)), payload_(parsed.payload), payload_digest_(parsed.payload_digest) {}

  // Aligned to 4096 bytes.
  absl::string_view payload() const { return payload_; }
  const Digest& payload_digest() const { return payload_digest_; }
  std::shared_ptr<const void> owner() const { return file_; }

 private:
  std::shared_ptr<const MappedFile> file_;
  absl::string_view payload_;
  Digest payload_digest_;
};

struct EntryInfo {
  Kind kind = Kind::kArtifact;
  Digest digest;  // digest of the key: the file's name
  std::string key;
  Digest payload_digest;
  int64_t bytes = 0;  // size of the file
  absl::Time last_use;
  bool pinned = false;
};

class DiskCache {
 public:
  struct Options {
    std::string directory;
    int64_t max_bytes = int64_t{10} << 30;
    absl::Duration lock_wait = absl::Seconds(10);  // for another process that changes something
  };

  // Makes the directory (0700) where there is none, removes temporary files that no process writes
  // any more, and evicts down to the budget. An error says why the directory cannot be used
  // (PERMISSION_DENIED: cannot be entered; FAILED_PRECONDITION: no directory, or one that all users
  // may write), and is counted as a failed write; a directory that can be read and not written is
  // no error: Write then fails. `clock` and `registry` must outlive the cache.
  static absl::StatusOr<std::unique_ptr<DiskCache>> Open(const Options& options, const Clock& clock,
                                                         metrics::Registry& registry);

  // NOT_FOUND: there is none. DATA_LOSS: there was one, it is damaged (or no file) and now in
  // quarantine (in a directory that cannot be written it stays, is refused each time and not
  // listed); the message says what is wrong with it. PERMISSION_DENIED, UNAVAILABLE: the file
  // cannot be read. Reading marks the entry as used now.
  absl::StatusOr<Entry> Read(Kind kind, absl::string_view key);

  // Reads the file again and checks everything, as Read does, without marking it used.
  absl::StatusOr<Entry> Verify(Kind kind, absl::string_view key);

  // As Verify, without consequences: what is damaged stays where it is and is not counted.
  absl::StatusOr<Entry> Peek(Kind kind, absl::string_view key) const;

  // To quarantine with an entry whose payload, which has that digest, is damaged in a way that only
  // its reader sees. OK too if there is none. ABORTED: it has been replaced since it was read, and
  // what is there now stays.
  absl::Status SetAside(Kind kind, absl::string_view key, const Digest& payload);

  // Replaces what is there. RESOURCE_EXHAUSTED: no room on the disk, or in the budget beside what
  // may not be evicted for it; nothing was evicted then. PERMISSION_DENIED, UNAVAILABLE: cannot be
  // written. INVALID_ARGUMENT: a key of more than kMaxKeyBytes.
  absl::Status Write(Kind kind, absl::string_view key, absl::string_view payload);

  // Takes the key's lock, so that one of several processes that lack an entry makes it. Waits for
  // its holder, asking `stop` (if not empty) now and then. DEADLINE_EXCEEDED: it is still held
  // after `wait`; CANCELLED: `stop` returned true; any other error: this directory has no locks.
  absl::StatusOr<KeyLock> LockKey(Kind kind, absl::string_view key, absl::Duration wait,
                                  const std::function<bool()>& stop) const;

  // OK too if there is none.
  absl::Status Remove(Kind kind, absl::string_view key);

  // A pinned entry is never evicted; pins survive restarts, and that the entry is written anew.
  // There may be no such entry yet; Remove takes the pin too.
  absl::Status SetPinned(Kind kind, absl::string_view key, bool pinned);
  bool IsPinned(Kind kind, absl::string_view key) const;

  // The entry as List shows it; nullopt if List would leave it out.
  std::optional<EntryInfo> Find(Kind kind, absl::string_view key) const;
  bool Contains(Kind kind, absl::string_view key) const;
  // Every entry of the kind, most recently used first; damaged ones are left out.
  std::vector<EntryInfo> List(Kind kind) const;

  // Bytes of all entries, with those in quarantine.
  int64_t bytes() const;
  int64_t max_bytes() const { return options_.max_bytes; }
  const std::string& directory() const { return options_.directory; }

 private:
  // Series of the registry.
  struct Metrics {
    explicit Metrics(metrics::Registry& registry);
    metrics::Gauge& bytes;
    metrics::Counter& evictions;
    metrics::Counter& corrupt;
    metrics::Counter& unreadable;
    metrics::Counter& no_space;
    metrics::Counter& read_only;
    metrics::Counter& other;
  };

  DiskCache(Options options, const Clock& clock, metrics::Registry& registry);

  void Clean();
  absl::StatusOr<Entry> Load(Kind kind, absl::string_view key);
  absl::Status Quarantine(const absl::StatusOr<DirectoryLock>& lock, Kind kind,
                          const Digest& digest) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsRefused(const StoredFile& file) const ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<EntryInfo> Describe(Kind kind, const StoredFile& file) const;

  absl::Status Store(Kind kind, absl::string_view key, absl::string_view payload);
  absl::StatusOr<TemporaryFile> Reserve(Kind kind, int64_t bytes, const std::string& path);
  // Counts what is there and evicts what is too much beside `bytes` more of a kind; `path` is about
  // to be replaced and does not count.
  absl::Status MakeRoom(const DirectoryLock& lock, Kind kind, int64_t bytes,
                        const std::string& path);
  bool MayGoForWeight(const StoredFile& file) const;
  // At least `bytes` of the files, where they have them; returns how many.
  absl::StatusOr<int64_t> Evict(const DirectoryLock& lock, std::vector<StoredFile> files,
                                int64_t bytes);
  void CountWriteFailure(const absl::Status& status);
  void NoteUses(const std::vector<StoredFile>& files) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Time NextUse() ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  const Clock& clock_;
  const CacheDirectory files_;
  const Metrics metrics_;
  absl::Time used_before_ = absl::InfinitePast();  // all uses before this cache was opened
  mutable absl::Mutex mutex_;
  absl::Time newest_use_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  // Damaged files that could not be set aside, as old as they then were: by path.
  absl::flat_hash_map<std::string, absl::Time> refused_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::cache
