#include "server/generation/held_request.h"

#include <utility>

namespace latentd::server::generation {

void HeldRequest::Receive(ReceivedRequest& request) {
  request_ = &request;
  received_ = request.size();
}

void HeldRequest::DropReceived() {
  if (ReceivedRequest* request = std::exchange(request_, nullptr)) request->Drop();
  received_ = 0;
}

void HeldRequest::LetGo() {
  DropReceived();
  read_ = 0;
}

}  // namespace latentd::server::generation
