#include "core/compiler/artifact.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "core/base/coding.h"
#include "core/base/digest.h"

namespace latentd::compiler {
namespace {

constexpr absl::string_view kMagic = "latentgr";
constexpr uint32_t kVersion = 2;
constexpr size_t kChecked = 48;  // what is before the checksum
constexpr size_t kHeader = 64;   // and the checksum

// Of the header and of what it says is there, so that no byte is free of it.
std::string Checksum(absl::string_view header, absl::string_view body) {
  const Digest of_header = DigestOf(header);
  const Digest of_body = DigestOf(body);
  std::string sum;
  PutLittleEndian(sum, of_header.high ^ of_body.high);
  PutLittleEndian(sum, of_header.low ^ of_body.low);
  return sum;
}

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("artifact: ", what));
}

}  // namespace

std::string WriteArtifact(const Artifact& artifact) {
  std::string header(kMagic);
  PutLittleEndian(header, kVersion);
  PutLittleEndian(header, static_cast<uint32_t>(artifact.key.size()));
  PutLittleEndian(header, uint64_t{artifact.label.size()});
  PutLittleEndian(header, uint64_t{artifact.graph.size()});
  PutLittleEndian(header, uint64_t{artifact.plan.size()});
  PutLittleEndian(header, static_cast<uint64_t>(absl::ToInt64Microseconds(artifact.compile_time)));
  const std::string body =
      absl::StrCat(artifact.key, artifact.label, artifact.graph, artifact.plan);
  return absl::StrCat(header, Checksum(header, body), body);
}

absl::StatusOr<Artifact> ParseArtifact(absl::string_view bytes) {
  if (bytes.size() < kHeader) return Damaged("cut short in its header");
  LittleEndianReader reader(bytes);
  if (reader.TakeBytes(kMagic.size()) != kMagic) return Damaged("not an artifact");
  if (const auto version = reader.Take<uint32_t>(); version != kVersion) {
    return Damaged(absl::StrCat("format ", version, ", this program reads ", kVersion));
  }
  const uint64_t key_bytes = reader.Take<uint32_t>();
  const auto label_bytes = reader.Take<uint64_t>();
  const auto graph_bytes = reader.Take<uint64_t>();
  const auto plan_bytes = reader.Take<uint64_t>();
  const auto microseconds = static_cast<int64_t>(reader.Take<uint64_t>());
  const absl::string_view checksum = reader.TakeBytes(kHeader - kChecked);
  const absl::string_view body = reader.rest();
  Artifact artifact;
  artifact.key = reader.TakeBytes(key_bytes);
  artifact.label = reader.TakeBytes(label_bytes);
  artifact.graph = reader.TakeBytes(graph_bytes);
  artifact.plan = reader.TakeBytes(plan_bytes);
  artifact.compile_time = absl::Microseconds(microseconds);
  if (!reader.done()) return Damaged("its lengths do not add up to its size");
  if (checksum != Checksum(bytes.substr(0, kChecked), body)) {
    return Damaged("its checksum does not fit");
  }
  return artifact;
}

}  // namespace latentd::compiler
