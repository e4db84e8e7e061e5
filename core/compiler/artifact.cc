#include "core/compiler/artifact.h"

#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/digest.h"

namespace latentd::compiler {
namespace {

constexpr absl::string_view kMagic = "latentgr";
constexpr uint32_t kVersion = 1;
constexpr size_t kLengths = 32;  // magic, version and lengths
constexpr size_t kHeader = 48;   // and the checksum

template <typename T>
void Append(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

template <typename T>
T ReadAt(absl::string_view bytes, size_t offset) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<unsigned char>(bytes[offset + i])) << (8 * i);
  }
  return value;
}

// Of the lengths and of what they say is there, so that no byte is free of it.
std::string Checksum(absl::string_view lengths, absl::string_view body) {
  const Digest of_lengths = DigestOf(lengths);
  const Digest of_body = DigestOf(body);
  std::string sum;
  Append(sum, of_lengths.high ^ of_body.high);
  Append(sum, of_lengths.low ^ of_body.low);
  return sum;
}

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("artifact: ", what));
}

}  // namespace

std::string WriteArtifact(const Artifact& artifact) {
  std::string bytes(kMagic);
  Append(bytes, kVersion);
  Append(bytes, static_cast<uint32_t>(artifact.key.size()));
  Append(bytes, static_cast<uint64_t>(artifact.graph.size()));
  Append(bytes, static_cast<uint64_t>(artifact.plan.size()));
  const std::string body = absl::StrCat(artifact.key, artifact.graph, artifact.plan);
  return absl::StrCat(bytes, Checksum(bytes, body), body);
}

absl::StatusOr<Artifact> ParseArtifact(absl::string_view bytes) {
  if (bytes.size() < kHeader) return Damaged("cut short in its header");
  if (bytes.substr(0, kMagic.size()) != kMagic) return Damaged("not an artifact");
  if (const auto version = ReadAt<uint32_t>(bytes, 8); version != kVersion) {
    return Damaged(absl::StrCat("format ", version, ", this program reads ", kVersion));
  }
  const absl::string_view body = bytes.substr(kHeader);
  const uint64_t key = ReadAt<uint32_t>(bytes, 12);
  const auto graph = ReadAt<uint64_t>(bytes, 16);
  const auto plan = ReadAt<uint64_t>(bytes, 24);
  // Compared one by one, so that no sum overflows.
  if (key > body.size() || graph > body.size() - key || plan != body.size() - key - graph) {
    return Damaged("its lengths do not add up to its size");
  }
  if (bytes.substr(kLengths, kHeader - kLengths) != Checksum(bytes.substr(0, kLengths), body)) {
    return Damaged("its checksum does not fit");
  }
  return Artifact{body.substr(0, key), body.substr(key, graph), body.substr(key + graph)};
}

}  // namespace latentd::compiler
