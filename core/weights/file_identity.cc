#include "core/weights/file_identity.h"

#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace latentd::weights {

std::string FileIdentity::ToText() const {
  const auto nanoseconds = [](absl::Time time) {
    return absl::StrCat(absl::ToUnixNanos(time), " ns");
  };
  return absl::StrCat("device ", device, "\ninode ", inode, "\nbytes ", bytes, "\nmodified ",
                      nanoseconds(modified), "\nchanged ", nanoseconds(changed));
}

absl::StatusOr<FileIdentity> IdentityOf(const FileDescriptor& file, const std::string& path) {
  struct stat info;
  if (fstat(file.get(), &info) != 0) return FileError("examine", path, errno);
  return FileIdentity{.device = info.st_dev,
                      .inode = info.st_ino,
                      .bytes = info.st_size,
                      .modified = absl::TimeFromTimespec(info.st_mtim),
                      .changed = absl::TimeFromTimespec(info.st_ctim)};
}

}  // namespace latentd::weights
