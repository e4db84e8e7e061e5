#include "core/base/files/file_reader.h"

#include <unistd.h>

#include <array>
#include <cerrno>

#include "absl/strings/str_cat.h"

namespace latentd {

absl::StatusOr<std::string> ReadOpenFile(const FileDescriptor& file, const std::string& path,
                                         size_t max_bytes) {
  // Read to the end instead of trusting the size: files of /proc and /sys say 0.
  std::string text;
  std::array<char, 1 << 16> chunk;
  while (true) {
    const ssize_t count =
        pread(file.get(), chunk.data(), chunk.size(), static_cast<off_t>(text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError("read", path, errno);
    if (count == 0) return text;
    if (static_cast<size_t>(count) > max_bytes - text.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " is longer than ", max_bytes, " bytes, the most that is read"));
    }
    text.append(chunk.data(), count);
  }
}

}  // namespace latentd
