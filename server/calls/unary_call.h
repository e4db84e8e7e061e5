// Generate and Encode: the stream's messages collected into one answer.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <vector>

#include "latent/v1/image_generation.pb.h"
#include "server/generation/generation.h"

namespace latentd::server::calls {

// Limit of stock clients for one message.
inline constexpr int64_t kMaxUnaryBytes = 4 << 20;

// A method, by what is its own. A constant.
struct UnaryMethod {
  const char* name;  // for the log
  // As ReceivedRequest::Parse.
  absl::Status (*parse)(const grpc::ByteBuffer& bytes, generation::ParsedRequest& parsed);
  // INTERNAL: the engine's result cannot be read.
  absl::StatusOr<grpc::ByteBuffer> (*answer)(latent::v1::GenerateResponse collected);
  const char* if_too_large;  // advice where the answer would be
};
extern const UnaryMethod kGenerate;

class UnaryCall final : public generation::Generation, public grpc::ServerUnaryReactor {
 public:
  // The reactor for one call; it ends its own life. `response` is gRPC's, and alive as long.
  static grpc::ServerUnaryReactor* Start(const UnaryMethod& method,
                                         generation::CallEnvironment environment,
                                         grpc::CallbackServerContext& context,
                                         const grpc::ByteBuffer& request,
                                         grpc::ByteBuffer& response);

  UnaryCall(const UnaryMethod& method, generation::CallEnvironment environment,
            grpc::CallbackServerContext& context, grpc::ByteBuffer& response);

 private:
  void OnCancel() override;
  void OnDone() override;

  void Abort() override { context_.TryCancel(); }
  void Advance() override;
  bool CanBeResumed() const override { return false; }
  int64_t MaxPictureBytes(int64_t echo_bytes) const override;
  bool TakesPreviews() const override { return false; }

  void KeepUnread(const std::shared_ptr<const void>& token) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // True if the answer is complete.
  bool Collect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(generation::OutgoingEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The answer, or why there is none, from what is collected.
  void TakeAnswer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishWith(const absl::Status& status);

  const UnaryMethod& method_;
  grpc::CallbackServerContext& context_;  // gRPC's, and alive until OnDone
  latent::v1::GenerateResponse collected_ ABSL_GUARDED_BY(mutex_);
  // Tokens of the pictures in the answer, until the client has it.
  std::vector<std::shared_ptr<const void>> unread_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  // Both belong to the thread that sets finished_.
  grpc::ByteBuffer& response_;
  absl::Status end_;
};

}  // namespace latentd::server::calls
