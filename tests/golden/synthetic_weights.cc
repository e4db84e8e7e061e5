#include "tests/golden/synthetic_weights.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/files.h"
#include "core/base/files/mapped_file.h"
#include "core/noise/noise_generator.h"

namespace latentd::golden {
namespace {

using device::Buffer;
using device::Shape;

// The CRC-32 of zlib and PNG (reflected polynomial 0xEDB88320).
uint32_t Crc32(absl::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

Buffer MakeTensor(const std::string& name, const Shape& shape) {
  Buffer tensor = noise::NoiseGenerator(Crc32(name)).Normal(shape);
  const bool bias = absl::EndsWith(name, "bias"), gain = !bias && shape.rank() == 1;
  const double fan_in = static_cast<double>(shape.elements()) / static_cast<double>(shape[0]);
  const float scale = bias || gain ? 0.1f : static_cast<float>(1 / std::sqrt(fan_in));
  for (float& value : tensor.as<float>()) value = value * scale + (gain ? 1.0f : 0.0f);
  return tensor;
}

absl::Status Write(int fd, const std::string& path, const Buffer& tensor) {
  const char* next = static_cast<const char*>(tensor.data());
  for (size_t left = tensor.bytes(); left > 0;) {
    const ssize_t written = write(fd, next, left);
    if (written < 0) return FileError("write", path, errno);
    next += written;
    left -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

// A file that deletes itself; a mapping of it stays.
class TemporaryFile {
 public:
  TemporaryFile()
      : path_((std::filesystem::temp_directory_path() / "golden-weights-XXXXXX").string()),
        fd_(mkstemp(path_.data())) {}
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  FileDescriptor fd_;
};

}  // namespace

absl::StatusOr<weights::TensorMap> MakeSyntheticWeights(
    const std::map<std::string, Shape>& shapes) {
  const TemporaryFile file;
  if (file.fd() < 0) return FileError("make", file.path(), errno);
  for (const auto& [name, shape] : shapes) {
    RETURN_IF_ERROR(Write(file.fd(), file.path(), MakeTensor(name, shape)));
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> mapping, MappedFile::Open(file.path()));
  weights::TensorMap tensors;
  char* next = const_cast<char*>(mapping->bytes().data());
  for (const auto& [name, shape] : shapes) {
    weights::StoredTensor tensor{.data = Buffer::Wrap(next, device::DType::kF32, shape, mapping),
                                 .file = "synthetic"};
    next += tensor.data.bytes();
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

}  // namespace latentd::golden
