#include "core/compiler/artifact.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/base/digest.h"

namespace latentd::compiler {
namespace {

constexpr absl::string_view kMagic = "latentgr";
constexpr uint32_t kVersion = 2;
constexpr size_t kChecked = 48;  // what is before the checksum
constexpr size_t kHeader = 64;   // and the checksum

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

// Of the header and of what it says is there, so that no byte is free of it.
std::string Checksum(absl::string_view header, absl::string_view body) {
  const Digest of_header = DigestOf(header);
  const Digest of_body = DigestOf(body);
  std::string sum;
  Append(sum, of_header.high ^ of_body.high);
  Append(sum, of_header.low ^ of_body.low);
  return sum;
}

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("artifact: ", what));
}

// Cuts `body` into pieces of the lengths. False: they do not add up to its size; compared one by
// one, so that no sum overflows.
bool Cut(absl::string_view body, absl::Span<const uint64_t> lengths,
         absl::Span<absl::string_view* const> pieces) {
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] > body.size()) return false;
    *pieces[i] = body.substr(0, lengths[i]);
    body.remove_prefix(lengths[i]);
  }
  return body.empty();
}

}  // namespace

std::string WriteArtifact(const Artifact& artifact) {
  std::string header(kMagic);
  Append(header, kVersion);
  Append(header, static_cast<uint32_t>(artifact.key.size()));
  Append(header, static_cast<uint64_t>(artifact.label.size()));
  Append(header, static_cast<uint64_t>(artifact.graph.size()));
  Append(header, static_cast<uint64_t>(artifact.plan.size()));
  Append(header, static_cast<uint64_t>(absl::ToInt64Microseconds(artifact.compile_time)));
  const std::string body =
      absl::StrCat(artifact.key, artifact.label, artifact.graph, artifact.plan);
  return absl::StrCat(header, Checksum(header, body), body);
}

absl::StatusOr<Artifact> ParseArtifact(absl::string_view bytes) {
  if (bytes.size() < kHeader) return Damaged("cut short in its header");
  if (bytes.substr(0, kMagic.size()) != kMagic) return Damaged("not an artifact");
  if (const auto version = ReadAt<uint32_t>(bytes, 8); version != kVersion) {
    return Damaged(absl::StrCat("format ", version, ", this program reads ", kVersion));
  }
  const absl::string_view body = bytes.substr(kHeader);
  Artifact artifact;
  if (!Cut(body,
           {ReadAt<uint32_t>(bytes, 12), ReadAt<uint64_t>(bytes, 16), ReadAt<uint64_t>(bytes, 24),
            ReadAt<uint64_t>(bytes, 32)},
           {&artifact.key, &artifact.label, &artifact.graph, &artifact.plan})) {
    return Damaged("its lengths do not add up to its size");
  }
  if (bytes.substr(kChecked, kHeader - kChecked) != Checksum(bytes.substr(0, kChecked), body)) {
    return Damaged("its checksum does not fit");
  }
  artifact.compile_time = absl::Microseconds(static_cast<int64_t>(ReadAt<uint64_t>(bytes, 40)));
  return artifact;
}

}  // namespace latentd::compiler
