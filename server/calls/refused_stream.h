// Streaming calls that end before anything was read or written.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/errors/out_of_memory.h"
#include "server/calls/grpc_status.h"

namespace latentd::server::calls {

using ReadReactor = grpc::ServerReadReactor<grpc::ByteBuffer>;
using WriteReactor = grpc::ServerWriteReactor<grpc::ByteBuffer>;

// Own themselves until gRPC is done with them.
class RefusedRead final : public ReadReactor {
 public:
  explicit RefusedRead(const absl::Status& status) { Finish(FinalStatus(status)); }
  void OnDone() override { delete this; }
};

class RefusedWrite final : public WriteReactor {
 public:
  explicit RefusedWrite(const absl::Status& status) { Finish(FinalStatus(status)); }
  void OnDone() override { delete this; }
};

// The reactor that `start` made, or that of a call which ends with its error, or for lack of
// memory: gRPC answers UNIMPLEMENTED to an exception. REQUIRES: `start` throws nothing once its
// reactor owns itself.
template <typename Start>
ReadReactor* StartOrRefuseRead(const Start& start) {
  const absl::StatusOr<ReadReactor*> reactor = CatchOutOfMemory(start);
  return reactor.ok() ? *reactor : new RefusedRead(reactor.status());
}
template <typename Start>
WriteReactor* StartOrRefuseWrite(const Start& start) {
  const absl::StatusOr<WriteReactor*> reactor = CatchOutOfMemory(start);
  return reactor.ok() ? *reactor : new RefusedWrite(reactor.status());
}

}  // namespace latentd::server::calls
