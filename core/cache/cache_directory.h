// The files of a cache directory (FORMAT.md): their names, the lock for changes, and the way to put
// one in place.
//
// To add, replace or remove a file takes the lock, for a moment, and proof of it: functions that
// do so have a parameter DirectoryLock. Reading needs none. Files that another process removes at
// the same time are simply not there. Errors have the codes that DiskCache promises:
// RESOURCE_EXHAUSTED, PERMISSION_DENIED, else UNAVAILABLE. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/files/files.h"
#include "core/base/text/digest.h"
#include "core/cache/entry_file.h"

namespace latentd::cache {

// A file that takes room: an entry, or a damaged one in quarantine.
struct StoredFile {
  std::string path;
  int64_t bytes = 0;
  absl::Time last_use;
  bool weight = false;  // true for Kind::kPackedWeight
  bool pinned = false;
  bool quarantined = false;
};

// The lock of a directory, among threads and processes, held until this is destroyed. Only
// CacheDirectory::Acquire makes one.
class DirectoryLock {
 private:
  friend class CacheDirectory;
  explicit DirectoryLock(FileDescriptor file) : file_(std::move(file)) {}
  FileDescriptor file_;
};

// A file that is being written. It is flocked, and has its full size from the start, so that every
// process sees that it is alive and the room that it needs. Gone with this object unless published.
class TemporaryFile {
 public:
  TemporaryFile(std::string path, FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}
  ~TemporaryFile();
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&&) = delete;

  // Marks it as being written, by this process, to that size.
  absl::Status Reserve(int64_t bytes);
  absl::Status Append(absl::string_view bytes);
  // All of it is on disk when this returns; `last_use` becomes the time of its entry.
  absl::Status Finish(absl::Time last_use);
  // REQUIRES: Finish has succeeded.
  absl::Status Publish(const std::string& path, const DirectoryLock& lock);

 private:
  std::string path_;  // empty: published or moved from
  FileDescriptor file_;
};

// Held until it is destroyed; the kernel releases those of a process that dies.
using KeyLock = FileDescriptor;

class CacheDirectory {
 public:
  CacheDirectory(std::string path, absl::Duration lock_wait)
      : path_(std::move(path)), lock_wait_(lock_wait) {}

  // Makes what is missing of the directory and its subdirectories.
  absl::Status Make() const;
  // FAILED_PRECONDITION, PERMISSION_DENIED or NOT_FOUND says why it cannot be used, even to read.
  absl::Status CheckUsable() const;

  // UNAVAILABLE if another process keeps it for longer than `lock_wait`.
  absl::StatusOr<DirectoryLock> Acquire() const;

  // The lock of one key; null: another process, or another thread of this one, has it. Never waits.
  // An error: there are no locks in this directory, such as where it cannot be written.
  absl::StatusOr<std::optional<KeyLock>> TryLockKey(Kind kind, const Digest& digest) const;

  // Bytes that may be written before the directory has to be counted again, as noted last for a
  // budget of `max_bytes`; 0 if nothing was noted.
  static int64_t RoomLeft(const DirectoryLock& lock, int64_t max_bytes);
  absl::Status SetRoomLeft(const DirectoryLock& lock, int64_t max_bytes, int64_t room) const;

  std::string EntryPath(Kind kind, const Digest& digest) const;
  std::string PinPath(Kind kind, const Digest& digest) const;
  std::string QuarantinePath(Kind kind, const Digest& digest) const;

  std::optional<StoredFile> FindEntry(Kind kind, const Digest& digest) const;
  bool IsPinned(Kind kind, const Digest& digest) const;
  // Entries of one kind, in no order.
  std::vector<StoredFile> Entries(Kind kind) const;
  // Entries of all kinds and what is in quarantine.
  std::vector<StoredFile> Files() const;
  // Bytes of files that are being written; leftovers of ended processes are removed.
  int64_t ReapTemporaries(const DirectoryLock& lock) const;

  absl::StatusOr<TemporaryFile> NewTemporary(Kind kind, int64_t bytes,
                                             const DirectoryLock& lock) const;

  // Makes renames in the kind's directory durable (fsync).
  absl::Status Sync(Kind kind) const;

 private:
  std::string Below(absl::string_view name) const;

  const std::string path_;
  const absl::Duration lock_wait_;
};

// "cannot <doing> <path>: <reason>".
absl::Status CacheFileError(absl::string_view doing, const std::string& path, int error_number);

absl::Status SetLastUse(const std::string& path, absl::Time last_use);

// OK too if there is one.
absl::Status MakeEmptyFile(const std::string& path, const DirectoryLock& lock);

// OK too if there is none.
absl::Status RemoveFile(const std::string& path, const DirectoryLock& lock);

absl::Status RenameFile(const std::string& from, const std::string& to, const DirectoryLock& lock);

// 0 if there is none.
int64_t BytesOfFile(const std::string& path);

}  // namespace latentd::cache
