#include "server/request_parser.h"

#include <vector>

#include "core/base/error_details.h"
#include "server/utf8.h"

namespace latentd::server {
namespace {

absl::Status Malformed() {
  return WithReason(
      absl::InvalidArgumentError("the bytes of the request are not a latent.v1.GenerateRequest"),
      "MALFORMED");
}

absl::Status DescribeBadBytes(absl::string_view bytes) {
  std::vector<FieldViolation> violations;
  for (std::string& field : FindInvalidUtf8(*latent::v1::GenerateRequest::descriptor(), bytes)) {
    violations.push_back({std::move(field), "is not valid UTF-8"});
  }
  return violations.empty() ? Malformed() : InvalidFields(violations);
}

}  // namespace

absl::StatusOr<latent::v1::GenerateRequest> ParseGenerateRequest(const grpc::ByteBuffer& bytes) {
  latent::v1::GenerateRequest request;
  if (bytes.Length() == 0) return request;
  grpc::Slice slice;
  if (!bytes.DumpToSingleSlice(&slice).ok()) return Malformed();
  const absl::string_view view(reinterpret_cast<const char*>(slice.begin()), slice.size());
  if (!request.ParseFromArray(view.data(), static_cast<int>(view.size()))) {
    return DescribeBadBytes(view);
  }
  return request;
}

}  // namespace latentd::server
