#include "core/base/files/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "core/base/errors/status_macros.h"

namespace latentd {

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenForReading(path));
  return Map(file, path);
}

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Map(const FileDescriptor& file,
                                                                  const std::string& path) {
  struct stat info;
  if (fstat(file.get(), &info) != 0) return FileError("examine", path, errno);
  const size_t size = static_cast<size_t>(info.st_size);
  // mmap refuses a length of 0.
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(path, nullptr, 0));
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return FileError("map", path, errno);
  return std::shared_ptr<const MappedFile>(
      new MappedFile(path, static_cast<const char*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
}

}  // namespace latentd
