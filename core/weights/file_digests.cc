#include "core/weights/file_digests.h"

#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/text/coding.h"

namespace latentd::weights {
namespace {

constexpr size_t kDigestBytes = 16;

std::string Encode(absl::Span<const Digest> digests) {
  std::string bytes;
  for (const Digest& digest : digests) {
    PutLittleEndian(bytes, digest.high);
    PutLittleEndian(bytes, digest.low);
  }
  return bytes;
}

std::optional<std::vector<Digest>> Decode(absl::string_view bytes, size_t count) {
  if (bytes.size() != count * kDigestBytes) return std::nullopt;
  LittleEndianReader reader(bytes);
  std::vector<Digest> digests(count);
  for (Digest& digest : digests) {
    digest.high = reader.Take<uint64_t>();
    digest.low = reader.Take<uint64_t>();
  }
  return digests;
}

// 2: identities have a change time since.
std::string KeyOf(const std::string& path, const FileIdentity& identity) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return absl::StrCat("digests 2\n", error ? path : absolute.string(), "\n", identity.ToText());
}

}  // namespace

std::optional<std::vector<Digest>> FindDigests(const DigestArchive& archive,
                                               const std::string& path,
                                               const FileIdentity& identity, size_t count) {
  if (archive.find == nullptr) return std::nullopt;
  const std::optional<std::string> found = archive.find(KeyOf(path, identity));
  return found.has_value() ? Decode(*found, count) : std::nullopt;
}

void KeepDigests(const DigestArchive& archive, const std::string& path,
                 const FileIdentity& identity, absl::Span<const Digest> digests) {
  if (archive.keep != nullptr) archive.keep(KeyOf(path, identity), Encode(digests));
}

}  // namespace latentd::weights
