#include "client/options/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"

namespace latentd::client {
namespace {

absl::Status SystemError(const std::string& path) {
  return absl::UnknownError(absl::StrCat(path, ": ", std::strerror(errno)));
}

absl::Status Exists(const std::string& path) {
  return absl::AlreadyExistsError(
      absl::StrCat(path, " is there already: --force overwrites it, --output names another file"));
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int value) : value_(value) {}
  ~FileDescriptor() {
    if (value_ >= 0) close(value_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int value() const { return value_; }

 private:
  int value_;
};

bool WriteAll(int descriptor, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

absl::StatusOr<std::string> ReadAll(int descriptor, const std::string& name, size_t max_bytes) {
  std::string bytes;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = read(descriptor, buffer, sizeof(buffer));
    if (count == 0) return bytes;
    if (count < 0 && errno != EINTR) return SystemError(name);
    if (count > 0) bytes.append(buffer, static_cast<size_t>(count));
    if (bytes.size() > max_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " has more than ", max_bytes >> 20, " MiB"));
    }
  }
}

// A second reader would get nothing, and take it for an empty file.
absl::StatusOr<std::string> ReadStandardInput(size_t max_bytes) {
  static std::atomic<bool> has_been_read = false;
  if (has_been_read.exchange(true)) {
    return absl::InvalidArgumentError("- is standard input, which can be read once only");
  }
  if (isatty(STDIN_FILENO)) std::cerr << "reading standard input; Ctrl-D ends it\n";
  return ReadAll(STDIN_FILENO, "standard input", max_bytes);
}

// Something that is there and is not a file: opened as it is.
bool IsDevice(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

// False with errno, EEXIST where there is one already.
bool RenameToNew(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno == EEXIST) return false;
  // Not every file system has it.
  if (link(from.c_str(), to.c_str()) != 0) return false;
  unlink(from.c_str());
  return true;
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  if (path == "-") return ReadStandardInput(max_bytes);
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.value() < 0) return SystemError(path);
  return ReadAll(file.value(), path, max_bytes);
}

absl::Status WriteFile(const std::string& path, absl::string_view bytes, Overwrite overwrite) {
  ASSIGN_OR_RETURN(const std::unique_ptr<PartFile> file, PartFile::Open(path, overwrite));
  RETURN_IF_ERROR(file->Write(bytes));
  return file->Finish();
}

// Under another name first: a process that is ended while it writes leaves no half of a file under
// this one.
absl::StatusOr<std::unique_ptr<PartFile>> PartFile::Open(const std::string& path,
                                                         Overwrite overwrite) {
  const bool is_output = path == "-";
  const std::string temporary =
      is_output || IsDevice(path) ? "" : absl::StrCat(path, ".", getpid(), ".tmp");
  const std::string& name = temporary.empty() ? path : temporary;
  const int flags = O_WRONLY | O_CLOEXEC | (temporary.empty() ? 0 : O_CREAT | O_EXCL);
  const int descriptor = is_output ? dup(STDOUT_FILENO) : open(name.c_str(), flags, 0666);
  if (descriptor < 0) return SystemError(name);
  return absl::WrapUnique(new PartFile(path, temporary, overwrite, descriptor));
}

PartFile::~PartFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status PartFile::Write(absl::string_view bytes) {
  return WriteAll(descriptor_, bytes) ? absl::OkStatus() : SystemError(path_);
}

absl::Status PartFile::Finish() {
  if (close(std::exchange(descriptor_, -1)) != 0) return SystemError(path_);
  if (temporary_.empty()) return absl::OkStatus();
  const bool renamed = overwrite_ == Overwrite::kReplace
                           ? rename(temporary_.c_str(), path_.c_str()) == 0
                           : RenameToNew(temporary_, path_);
  if (!renamed) return errno == EEXIST ? Exists(path_) : SystemError(path_);
  temporary_.clear();
  return absl::OkStatus();
}

absl::Status WriteStandardOutput(absl::string_view bytes) {
  return WriteAll(STDOUT_FILENO, bytes) ? absl::OkStatus() : SystemError("standard output");
}

absl::Status CheckWritable(const std::string& path, Overwrite overwrite) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    return absl::AlreadyExistsError(absl::StrCat(path, " is a directory"));
  }
  if (IsDevice(path)) return absl::OkStatus();
  if (overwrite == Overwrite::kNever && fs::exists(path, error)) return Exists(path);
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : ".";
  if (access(folder.c_str(), W_OK | X_OK) != 0) return SystemError(folder);
  return absl::OkStatus();
}

}  // namespace latentd::client
