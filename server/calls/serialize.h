// A message as the bytes that gRPC sends: the one place where messages become bytes, so that no
// string in them can keep a client from reading the rest (server/process/logs/utf8_message.h).
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <string>

#include "google/rpc/status.pb.h"

namespace latentd::server::calls {

grpc::ByteBuffer Serialize(const google::protobuf::Message& message);

// The same as a string, for what is put together of several.
std::string SerializeToBytes(const google::protobuf::Message& message);

// Puts a message into a status, as one of its details.
void AddDetail(google::rpc::Status& status, const google::protobuf::Message& detail);

}  // namespace latentd::server::calls
