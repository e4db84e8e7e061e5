// A whole file mapped read-only into memory: pages come from disk when they are first read, and the
// kernel may drop them again.
//
// Shared as shared_ptr<const MappedFile>; the mapping goes with the last owner. Any thread may
// read. A write to the file shows in the mapping, and the file must not be cut shorter while it is
// mapped: the kernel then ends the process that reads there (SIGBUS). Replacing it by rename is
// safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/files/files.h"

namespace latentd {

class MappedFile {
 public:
  // NOT_FOUND, PERMISSION_DENIED or INVALID_ARGUMENT (a directory, a pipe) names the path.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  // Maps an open file, which `path` names in messages. It may be closed afterwards.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Map(const FileDescriptor& file,
                                                               const std::string& path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }

  // Starts at a page boundary; empty for an empty file.
  absl::string_view bytes() const { return {data_, size_}; }

 private:
  MappedFile(std::string path, const char* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::string path_;
  const char* data_;
  size_t size_;
};

}  // namespace latentd
