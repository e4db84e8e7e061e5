// GenerateStream, GenerateVideo and what resumes them: events as messages.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "server/calls/message_stream.h"
#include "server/generation/conversion/field_limits.h"
#include "server/generation/generation.h"

namespace latentd::server::calls {

// A method, by what is its own. A constant.
struct StreamMethod {
  const char* name;  // for the log
  generation::Results results;
  // As ReceivedRequest::Parse.
  absl::Status (*parse)(const grpc::ByteBuffer& bytes, generation::ParsedRequest& parsed);
  // As of event_bytes.h.
  grpc::ByteBuffer (*serialize)(const generation::OutgoingEvent& event);
  // Reads, for a method that resumes, in place of `parse`, as much as can be read. INVALID_ARGUMENT
  // says what is wrong.
  absl::Status (*read_resume)(const grpc::ByteBuffer& bytes,
                              generation::Resumption& asked) = nullptr;
};
extern const StreamMethod kGenerateStream;
extern const StreamMethod kResumeStream;

class StreamCall final : public generation::Generation, public MessageStream {
 public:
  // The reactor for one call; it ends its own life.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(const StreamMethod& method,
                                                           generation::CallEnvironment environment,
                                                           grpc::CallbackServerContext& context,
                                                           const grpc::ByteBuffer& request);

  // The same of a method that resumes.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Resume(const StreamMethod& method,
                                                            generation::CallEnvironment environment,
                                                            grpc::CallbackServerContext& context,
                                                            const grpc::ByteBuffer& request);

  StreamCall(const StreamMethod& method, generation::CallEnvironment environment,
             grpc::CallbackServerContext& context);

 private:
  void OnCancel() override;
  void OnDone() override;

  void Abort() override { context_.TryCancel(); }
  void Advance() override { SendNext(); }
  bool CanBeResumed() const override { return true; }
  int64_t MaxPictureBytes(int64_t) const override { return 0; }
  bool TakesPreviews() const override { return true; }

  bool TakeMessage(grpc::ByteBuffer& bytes) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(stream_mutex_);
  void GiveUp(const absl::Status& status) override { Fail(status); }
  void OnWritten(bool ok) override;

  const StreamMethod& method_;
  grpc::CallbackServerContext& context_;  // gRPC's, and alive until OnDone
};

}  // namespace latentd::server::calls
