#include "core/base/files/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/file_reader.h"

namespace latentd {
namespace {

std::string LinkNote(const std::string& path) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::read_symlink(path, error);
  return error ? "" : absl::StrCat(" (a symbolic link to ", target.string(), ")");
}

absl::Status CheckRegular(int fd, const std::string& path) {
  struct stat info;
  if (fstat(fd, &info) != 0) return FileError("examine", path, errno);
  if (S_ISREG(info.st_mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, S_ISDIR(info.st_mode) ? " is a directory" : " is not a regular file",
                   "; a regular file is needed"));
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

absl::Status FileError(absl::string_view doing, const std::string& path, int error_number) {
  // Abseil has no code for a loop of symbolic links.
  const absl::StatusCode code = error_number == ELOOP ? absl::StatusCode::kFailedPrecondition
                                                      : absl::ErrnoToStatusCode(error_number);
  return absl::Status(code, absl::StrCat("cannot ", doing, " ", path, LinkNote(path), ": ",
                                         std::generic_category().message(error_number)));
}

absl::Status CheckDirectory(const std::string& path) {
  const FileDescriptor directory(open(path.c_str(), O_PATH | O_CLOEXEC | O_DIRECTORY));
  if (directory.get() < 0) return FileError("open", path, errno);
  if (faccessat(directory.get(), ".", X_OK, AT_EACCESS) != 0)
    return FileError("search", path, errno);
  return absl::OkStatus();
}

absl::StatusOr<FileDescriptor> OpenForReading(const std::string& path) {
  // O_NONBLOCK so that opening a pipe does not wait for a writer.
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return FileError("open", path, errno);
  RETURN_IF_ERROR(CheckRegular(file.get(), path));
  return file;
}

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenForReading(path));
  return ReadOpenFile(file, path, max_bytes);
}

}  // namespace latentd
