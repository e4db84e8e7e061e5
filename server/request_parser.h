// The bytes of a generation request, read by latentd itself, so that every way to be wrong gets an
// answer that says so.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/statusor.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::server {

// INVALID_ARGUMENT with a violation for every string field that is not UTF-8, or with reason
// MALFORMED.
absl::StatusOr<latent::v1::GenerateRequest> ParseGenerateRequest(const grpc::ByteBuffer& bytes);

}  // namespace latentd::server
