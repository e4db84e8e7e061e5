// The bytes of requests, read by latentd itself, so that every way to be wrong gets an answer that
// says so: a handler that gRPC generates answers UNIMPLEMENTED, without a message, to bytes that it
// cannot read.
//
// Thread-safe: free functions without state.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/errors/status_macros.h"

namespace latentd::server::calls {

// INVALID_ARGUMENT with a violation for every string field that is not UTF-8, or with reason
// MALFORMED. What the fields say is not looked at.
absl::Status ParseRequest(const grpc::ByteBuffer& bytes, google::protobuf::Message& request);

// INVALID_ARGUMENT with a violation for every field that type_rules.h refuses: numbers that are not
// finite, values that an enum does not have, fields that this server does not know.
absl::Status CheckFields(const google::protobuf::Message& request);

// For an API that is not ours: fields that this server does not know are left out.
template <typename Request>
absl::StatusOr<Request> ReadForeignRequest(const grpc::ByteBuffer& bytes) {
  Request request;
  RETURN_IF_ERROR(ParseRequest(bytes, request));
  return request;
}

// Both.
template <typename Request>
absl::StatusOr<Request> ReadRequest(const grpc::ByteBuffer& bytes) {
  Request request;
  RETURN_IF_ERROR(ParseRequest(bytes, request));
  RETURN_IF_ERROR(CheckFields(request));
  return request;
}

}  // namespace latentd::server::calls
