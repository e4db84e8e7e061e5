// GenerateStream: events as messages, one write in flight.
#pragma once

#include <grpcpp/support/server_callback.h>

#include "server/calls/generate_call.h"

namespace latentd::server::calls {

class StreamCall final : public GenerateCall, public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  // The reactor for one call; it ends its own life.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(CallEnvironment environment,
                                                           grpc::CallbackServerContext& context,
                                                           const grpc::ByteBuffer& request);

  StreamCall(CallEnvironment environment, grpc::CallbackServerContext& context);

 private:
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void Advance() override;
  int64_t MaxPictureBytes(int64_t) const override { return 0; }

  enum class Next { kNothing, kWrite, kFinish };
  Next TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void FinishWith(const absl::Status& status);

  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  // Both belong to whoever set writing_ or finished_, until gRPC is done with them.
  grpc::ByteBuffer message_;
  absl::Status end_;
};

}  // namespace latentd::server::calls
