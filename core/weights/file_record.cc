#include "core/weights/file_record.h"

#include <sys/stat.h>

#include <utility>

#include "core/base/errors/status_macros.h"
#include "core/base/files/file_reader.h"

namespace latentd::weights {

absl::StatusOr<std::shared_ptr<const FileRecord>> FileRecord::Read(const std::string& path,
                                                                   size_t max_bytes,
                                                                   std::string* text) {
  ASSIGN_OR_RETURN(FileDescriptor file, OpenForReading(path));
  // Before it is read, so that a write in between counts.
  ASSIGN_OR_RETURN(const FileIdentity identity, IdentityOf(file, path));
  ASSIGN_OR_RETURN(*text, ReadOpenFile(file, path, max_bytes));
  return std::shared_ptr<const FileRecord>(
      new FileRecord(path, max_bytes, std::move(file), identity, DigestOf(*text)));
}

bool FileRecord::HasSameContent(const FileDescriptor& file) const {
  const absl::StatusOr<std::string> text = ReadOpenFile(file, path_, max_bytes_);
  return text.ok() && DigestOf(*text) == digest_;
}

absl::Status FileRecord::CheckUnchanged() const {
  absl::MutexLock lock(&mutex_);
  if (changed_) return CheckpointChangedError(path_);
  const absl::StatusOr<FileIdentity> now = IdentityOf(*file_, path_);
  if (now.ok() && *now == known_) return absl::OkStatus();
  changed_ = !now.ok() || !HasSameContent(*file_);
  if (changed_) return CheckpointChangedError(path_);
  known_ = *now;
  return absl::OkStatus();
}

bool FileRecord::IsReplaced() const {
  absl::MutexLock lock(&mutex_);
  struct stat info;
  if (stat(path_.c_str(), &info) != 0) return true;
  if (info.st_dev == known_.device && info.st_ino == known_.inode) return false;
  absl::StatusOr<FileDescriptor> other = OpenForReading(path_);
  if (!other.ok()) return true;
  const absl::StatusOr<FileIdentity> identity = IdentityOf(*other, path_);
  if (!identity.ok() || !HasSameContent(*other)) return true;
  file_.emplace(*std::move(other));
  known_ = *identity;
  return false;
}

absl::StatusOr<std::string> FileRecords::Read(const std::string& path, size_t max_bytes) {
  std::string text;
  ASSIGN_OR_RETURN(auto record, FileRecord::Read(path, max_bytes, &text));
  absl::MutexLock lock(&mutex_);
  by_path_.try_emplace(path, std::move(record));
  return text;
}

std::vector<std::shared_ptr<const WatchedFile>> FileRecords::files() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<const WatchedFile>> files;
  for (const auto& [path, record] : by_path_) files.push_back(record);
  return files;
}

}  // namespace latentd::weights
