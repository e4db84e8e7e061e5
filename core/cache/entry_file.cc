#include "core/cache/entry_file.h"

#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "core/base/alignment.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/coding.h"

namespace latentd::cache {
namespace {

constexpr absl::string_view kMagic = "latentce";
constexpr uint32_t kVersion = 1;
constexpr size_t kFixedBytes = 64;  // bytes of the head before the key
constexpr size_t kHeadDigestOffset = 48;

struct Fields {
  uint32_t kind = 0;
  uint64_t payload_bytes = 0;
  Digest payload_digest;
  absl::string_view key;
};

void Put(std::string& bytes, const Digest& digest) {
  PutLittleEndian(bytes, digest.low);
  PutLittleEndian(bytes, digest.high);
}

Digest TakeDigest(LittleEndianReader& reader) {
  const auto low = reader.Take<uint64_t>();
  return {.high = reader.Take<uint64_t>(), .low = low};
}

constexpr size_t HeadBytes(size_t key_bytes) {
  return RoundUp(kFixedBytes + key_bytes, kPayloadAlignment);
}

std::string Encode(const Fields& fields) {
  std::string head;
  head.reserve(HeadBytes(fields.key.size()));
  head.append(kMagic.data(), kMagic.size());
  PutLittleEndian(head, kVersion);
  PutLittleEndian(head, fields.kind);
  PutLittleEndian(head, uint64_t{fields.key.size()});
  PutLittleEndian(head, fields.payload_bytes);
  Put(head, fields.payload_digest);
  Put(head, Digest());
  head.append(fields.key.data(), fields.key.size());
  head.resize(HeadBytes(fields.key.size()));
  std::string digest;
  Put(digest, DigestOf(head));
  return head.replace(kHeadDigestOffset, digest.size(), digest);
}

absl::StatusOr<Fields> ReadFields(absl::string_view file) {
  if (file.size() < kFixedBytes) {
    return absl::DataLossError(absl::StrCat("cut short in its head, at ", file.size(), " bytes"));
  }
  LittleEndianReader reader(file);
  if (reader.TakeBytes(kMagic.size()) != kMagic) return absl::DataLossError("not a cache entry");
  if (const auto version = reader.Take<uint32_t>(); version != kVersion) {
    return absl::DataLossError(
        absl::StrCat("of format ", version, "; this program reads format ", kVersion));
  }
  Fields fields;
  fields.kind = reader.Take<uint32_t>();
  const auto key_bytes = reader.Take<uint64_t>();
  if (key_bytes > kMaxKeyBytes || HeadBytes(key_bytes) > file.size()) {
    return absl::DataLossError("cut short in its key, or the key's length is damaged");
  }
  fields.payload_bytes = reader.Take<uint64_t>();
  fields.payload_digest = TakeDigest(reader);
  fields.key = file.substr(kFixedBytes, key_bytes);
  return fields;
}

// Checks the head of a file whose fields were read: it is the one that its fields make, and the
// file is as long as its lengths say.
absl::Status CheckHead(const Fields& fields, absl::string_view file) {
  const std::string head = Encode(fields);
  if (file.substr(0, head.size()) != head) {
    return absl::DataLossError("the head does not fit its checksum");
  }
  if (fields.kind >= std::size(kKinds)) {
    return absl::DataLossError(absl::StrCat("of kind ", fields.kind, ", which is unknown"));
  }
  if (const size_t payload = file.size() - head.size(); payload != fields.payload_bytes) {
    return absl::DataLossError(
        absl::StrCat("holds ", payload, " bytes of payload; its head says ", fields.payload_bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<Fields> CheckedFields(absl::string_view file) {
  ASSIGN_OR_RETURN(const Fields fields, ReadFields(file));
  RETURN_IF_ERROR(CheckHead(fields, file));
  return fields;
}

ParsedEntry Parsed(const Fields& fields, absl::string_view file) {
  return {static_cast<Kind>(fields.kind), fields.key, file.substr(HeadBytes(fields.key.size())),
          fields.payload_digest};
}

}  // namespace

absl::string_view KindName(Kind kind) {
  constexpr absl::string_view kNames[] = {"artifacts", "weights", "digests", "findings"};
  return kNames[static_cast<size_t>(kind)];
}

std::string EncodeHead(Kind kind, absl::string_view key, absl::string_view payload) {
  return Encode({static_cast<uint32_t>(kind), payload.size(), DigestOf(payload), key});
}

absl::StatusOr<ParsedEntry> ParseHead(absl::string_view file) {
  ASSIGN_OR_RETURN(const Fields fields, CheckedFields(file));
  return Parsed(fields, file);
}

absl::StatusOr<ParsedEntry> ParseEntry(absl::string_view file) {
  ASSIGN_OR_RETURN(const Fields fields, CheckedFields(file));
  const ParsedEntry entry = Parsed(fields, file);
  if (DigestOf(entry.payload) != fields.payload_digest) {
    return absl::DataLossError("the payload does not fit its checksum");
  }
  return entry;
}

}  // namespace latentd::cache
