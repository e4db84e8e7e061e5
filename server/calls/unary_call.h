// Generate: the stream's messages collected into one answer.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <vector>

#include "latent/v1/image_generation.pb.h"
#include "server/calls/generate_call.h"

namespace latentd::server::calls {

// Limit of stock clients for one message.
inline constexpr int64_t kMaxUnaryBytes = 4 << 20;

class UnaryCall final : public GenerateCall, public grpc::ServerUnaryReactor {
 public:
  // The reactor for one call; it ends its own life. `response` is gRPC's, and alive as long.
  static grpc::ServerUnaryReactor* Start(CallEnvironment environment,
                                         grpc::CallbackServerContext& context,
                                         const grpc::ByteBuffer& request,
                                         grpc::ByteBuffer& response);

  UnaryCall(CallEnvironment environment, grpc::CallbackServerContext& context,
            grpc::ByteBuffer& response);

 private:
  void OnCancel() override;
  void OnDone() override;

  void Advance() override;
  bool CanBeResumed() const override { return false; }
  int64_t MaxPictureBytes(int64_t echo_bytes) const override;
  bool TakesPreviews() const override { return false; }

  void KeepUnread(const std::shared_ptr<const void>& token) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // True if the answer is complete.
  bool Collect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(OutgoingEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishWith(const absl::Status& status);

  latent::v1::GenerateResponse collected_ ABSL_GUARDED_BY(mutex_);
  // Tokens of the pictures in the answer, until the client has it.
  std::vector<std::shared_ptr<const void>> unread_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  // Both belong to the thread that sets finished_.
  grpc::ByteBuffer& response_;
  absl::Status end_;
};

}  // namespace latentd::server::calls
