// Opening and reading files with errors that name the path.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd {

// A file descriptor that closes itself.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  FileDescriptor& operator=(FileDescriptor&&) = delete;

  int get() const { return fd_; }

 private:
  int fd_;
};

// "cannot <doing> <path>: <reason>" with the code that fits errno; a symbolic link that leads
// nowhere is said to be one.
absl::Status FileError(absl::string_view doing, const std::string& path, int error_number);

// OK for a directory whose entries can be looked up. NOT_FOUND, PERMISSION_DENIED or what else
// prevents that: a loop of symbolic links, something that is no directory.
absl::Status CheckDirectory(const std::string& path);

// Opens a regular file for reading. INVALID_ARGUMENT for a directory, a pipe or a device; never
// waits for one.
absl::StatusOr<FileDescriptor> OpenForReading(const std::string& path);

// The whole file. INVALID_ARGUMENT if it has more than `max_bytes`; at most that much is read.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes);

}  // namespace latentd
