// Streaming calls that end before anything was read or written.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "absl/status/status.h"
#include "server/grpc_status.h"

namespace latentd::server {

// Own themselves until gRPC is done with them.
class RefusedRead final : public grpc::ServerReadReactor<grpc::ByteBuffer> {
 public:
  explicit RefusedRead(const absl::Status& status) { Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

class RefusedWrite final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  explicit RefusedWrite(const absl::Status& status) { Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

}  // namespace latentd::server
