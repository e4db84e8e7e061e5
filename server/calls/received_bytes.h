// A request for pictures as gRPC has received it.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "server/generation/received_request.h"

namespace latentd::server::calls {

class ReceivedBytes final : public generation::ReceivedRequest {
 public:
  // As of ReceivedRequest::Parse.
  using Read = absl::Status(const grpc::ByteBuffer& bytes, generation::ParsedRequest& parsed);

  // `bytes` are gRPC's own, which keeps them until the call ends.
  ReceivedBytes(const grpc::ByteBuffer& bytes, Read& read) : bytes_(bytes), read_(read) {}

  int64_t size() const override { return static_cast<int64_t>(bytes_.Length()); }
  absl::Status Parse(generation::ParsedRequest& parsed) override { return read_(bytes_, parsed); }
  // gRPC has no other way to let go of a message.
  void Drop() override { const_cast<grpc::ByteBuffer&>(bytes_).Clear(); }

 private:
  const grpc::ByteBuffer& bytes_;
  Read& read_;
};

}  // namespace latentd::server::calls
