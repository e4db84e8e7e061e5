// A message as the bytes that gRPC sends.
#pragma once

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>

namespace latentd::server::calls {

// REQUIRES: strings in the message are UTF-8.
grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message);

}  // namespace latentd::server::calls
