#include "core/weights/file_digests.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/call_once.h"
#include "absl/strings/str_cat.h"

namespace latentd::weights {
namespace {

using device::Buffer;

constexpr size_t kDigestBytes = 16;

std::string Encode(const std::vector<Digest>& digests) {
  std::string bytes;
  for (const Digest& digest : digests) {
    for (const uint64_t half : {digest.high, digest.low}) {
      for (int shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<char>(half >> shift));
    }
  }
  return bytes;
}

uint64_t DecodeHalf(absl::string_view bytes) {
  uint64_t half = 0;
  for (int i = 0; i < 8; ++i) half |= uint64_t{static_cast<uint8_t>(bytes[i])} << 8 * i;
  return half;
}

// nullopt: not that many digests.
std::optional<std::vector<Digest>> Decode(absl::string_view bytes, size_t count) {
  if (bytes.size() != count * kDigestBytes) return std::nullopt;
  std::vector<Digest> digests;
  for (size_t at = 0; at < bytes.size(); at += kDigestBytes) {
    digests.push_back({DecodeHalf(bytes.substr(at)), DecodeHalf(bytes.substr(at + 8))});
  }
  return digests;
}

// Of the tensors of one file, in the order of their names.
class FileDigests {
 public:
  FileDigests(std::string path, std::string identity, DigestArchive archive,
              std::vector<Buffer> tensors)
      : path_(std::move(path)),
        identity_(std::move(identity)),
        archive_(std::move(archive)),
        tensors_(std::move(tensors)) {}

  const Digest& Get(size_t index) const {
    absl::call_once(once_, [this] { FindOrMake(); });
    return digests_[index];
  }

 private:
  void FindOrMake() const {
    const std::string key = absl::StrCat("digests 1\n", identity_);
    if (const std::optional<std::string> found = archive_.find(key)) {
      std::optional<std::vector<Digest>> digests = Decode(*found, tensors_.size());
      if (digests.has_value()) {
        digests_ = *std::move(digests);
        return;
      }
    }
    for (const Buffer& tensor : tensors_) {
      digests_.push_back(DigestOf({static_cast<const char*>(tensor.data()), tensor.bytes()}));
    }
    // Written to while it was read: what was read belongs to no state of the file.
    if (FileIdentity(path_) == identity_) archive_.keep(key, Encode(digests_));
  }

  const std::string path_, identity_;
  const DigestArchive archive_;
  const std::vector<Buffer> tensors_;
  mutable absl::once_flag once_;
  mutable std::vector<Digest> digests_;
};

}  // namespace

std::optional<std::string> FileIdentity(const std::string& path) {
  struct stat info;
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error || stat(path.c_str(), &info) != 0) return std::nullopt;
  return absl::StrCat(absolute.string(), "\ninode ", info.st_ino, "\nbytes ", info.st_size,
                      "\nmodified ", info.st_mtim.tv_sec, " s ", info.st_mtim.tv_nsec, " ns");
}

void ArchiveDigests(const std::string& path, const std::string& identity,
                    const DigestArchive& archive, TensorMap* tensors) {
  std::vector<std::pair<std::string, StoredTensor*>> usable;
  for (auto& [name, tensor] : *tensors) {
    if (tensor.unusable_dtype.empty()) usable.emplace_back(name, &tensor);
  }
  std::sort(usable.begin(), usable.end());
  std::vector<Buffer> data;
  data.reserve(usable.size());
  for (const auto& [name, tensor] : usable) data.push_back(tensor->data);
  const auto digests =
      std::make_shared<const FileDigests>(path, identity, archive, std::move(data));
  for (size_t i = 0; i < usable.size(); ++i) {
    usable[i].second->digest =
        std::make_shared<const ContentDigest>([digests, i] { return digests->Get(i); });
  }
}

}  // namespace latentd::weights
