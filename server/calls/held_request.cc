#include "server/calls/held_request.h"

#include <utility>

namespace latentd::server::calls {

// gRPC has no other way to let go of a message.
void HeldRequest::Receive(const grpc::ByteBuffer& message) {
  message_ = const_cast<grpc::ByteBuffer*>(&message);
  received_ = static_cast<int64_t>(message.Length());
}

void HeldRequest::DropReceived() {
  if (grpc::ByteBuffer* message = std::exchange(message_, nullptr)) message->Clear();
  received_ = 0;
}

void HeldRequest::LetGo() {
  DropReceived();
  read_ = 0;
}

}  // namespace latentd::server::calls
