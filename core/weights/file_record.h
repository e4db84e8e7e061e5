// Small files of a checkpoint (configurations, vocabularies, indices) that were read whole: they
// stay open, and what they were is remembered, so that an edit is noticed as one of tensors is.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/base/files/files.h"
#include "core/base/text/digest.h"
#include "core/weights/file_identity.h"
#include "core/weights/watched_file.h"

namespace latentd::weights {

class FileRecord : public WatchedFile {
 public:
  // Reads the file into `text`. Fails as ReadFile does.
  static absl::StatusOr<std::shared_ptr<const FileRecord>> Read(const std::string& path,
                                                                size_t max_bytes,
                                                                std::string* text);

  const std::string& path() const override { return path_; }
  absl::Status CheckUnchanged() const override ABSL_LOCKS_EXCLUDED(mutex_);
  // Not where the other file has the same content: that one is watched from then on.
  bool IsReplaced() const override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  FileRecord(const std::string& path, size_t max_bytes, FileDescriptor file,
             const FileIdentity& identity, const Digest& digest)
      : path_(path), max_bytes_(max_bytes), digest_(digest), known_(identity) {
    file_.emplace(std::move(file));
  }

  // True if the file, read now, has the content that was read.
  bool HasSameContent(const FileDescriptor& file) const;

  const std::string path_;
  const size_t max_bytes_;
  const Digest digest_;

  mutable absl::Mutex mutex_;
  mutable std::optional<FileDescriptor> file_ ABSL_GUARDED_BY(mutex_);
  mutable FileIdentity known_ ABSL_GUARDED_BY(mutex_);  // identity of `file_` with that content
  mutable bool changed_ ABSL_GUARDED_BY(mutex_) = false;
};

class FileRecords {
 public:
  // As ReadFile, and remembers the file. One that is read again is remembered as it was first.
  absl::StatusOr<std::string> Read(const std::string& path, size_t max_bytes)
      ABSL_LOCKS_EXCLUDED(mutex_);

  std::vector<std::shared_ptr<const WatchedFile>> files() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  absl::btree_map<std::string, std::shared_ptr<const FileRecord>> by_path_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::weights
