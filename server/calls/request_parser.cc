#include "server/calls/request_parser.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "server/calls/utf8.h"
#include "server/generation/conversion/type_rules.h"

namespace latentd::server::calls {
namespace {

using google::protobuf::Descriptor;

absl::Status Malformed(const Descriptor& type) {
  return WithReason(absl::InvalidArgumentError(
                        absl::StrCat("the bytes of the request are not a ", type.full_name())),
                    "MALFORMED");
}

absl::Status DescribeBadBytes(const Descriptor& type, absl::string_view bytes) {
  std::vector<FieldViolation> violations;
  for (std::string& field : FindInvalidUtf8(type, bytes)) {
    violations.push_back({std::move(field), "is not valid UTF-8"});
  }
  return violations.empty() ? Malformed(type) : InvalidFields(violations);
}

// Parses bytes in parts, without a copy of all.
bool ParseInPlace(const grpc::ByteBuffer& bytes, google::protobuf::Message& request) {
  grpc::ByteBuffer shared = bytes;
  grpc::ProtoBufferReader reader(&shared);
  return reader.status().ok() && request.ParseFromZeroCopyStream(&reader);
}

}  // namespace

absl::Status ParseRequest(const grpc::ByteBuffer& bytes, google::protobuf::Message& request) {
  const Descriptor& type = *request.GetDescriptor();
  if (bytes.Length() == 0) return absl::OkStatus();
  if (ParseInPlace(bytes, request)) return absl::OkStatus();
  grpc::Slice slice;
  if (!bytes.DumpToSingleSlice(&slice).ok()) return Malformed(type);
  const absl::string_view view(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return DescribeBadBytes(type, view);
}

absl::Status CheckFields(const google::protobuf::Message& request) {
  std::vector<FieldViolation> violations;
  generation::CheckTypes(request, violations);
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

}  // namespace latentd::server::calls
