// The bytes of one request: as gRPC has received them, and as they are read. Counts them for as
// long as its call holds them, which is until the engine has them or the request is refused.
//
// The counts are thread-safe; all else belongs to the thread that reads the request.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <cstdint>

namespace latentd::server::calls {

class HeldRequest {
 public:
  struct Bytes {
    int64_t received = 0;  // bytes not read yet
    int64_t read = 0;      // bytes that the engine has not got
  };

  // REQUIRES: `message` is gRPC's own, which keeps it until the call ends.
  void Receive(const grpc::ByteBuffer& message);

  // Reading takes as much again.
  void BeginReading() { read_ = received_.load(); }

  // Frees what gRPC has received, if that has not been done.
  void DropReceived();

  // Nothing is held any more.
  void LetGo();

  Bytes bytes() const { return {.received = received_, .read = read_}; }

 private:
  grpc::ByteBuffer* message_ = nullptr;  // null: freed
  std::atomic<int64_t> received_ = 0, read_ = 0;
};

}  // namespace latentd::server::calls
