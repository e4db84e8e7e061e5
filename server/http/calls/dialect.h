// One request for pictures as an API of others has it: how its body is read, and what is answered.
// An object for each request, which keeps what the answer depends on.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "latent/v1/image_generation.pb.h"
#include "server/generation/conversion/outgoing_event.h"
#include "server/http/calls/drawn.h"
#include "server/http/exchange/exchange.h"

namespace latentd::server::http {

// Not thread-safe.
class Dialect {
 public:
  virtual ~Dialect() = default;

  // For the log, metrics and spans: "openai.generations".
  virtual const char* method() const = 0;

  // INVALID_ARGUMENT names what is wrong; what could be read is in `request`. Called once, first.
  virtual absl::Status Read(const Request& http, latent::v1::GenerateRequest& request) = 0;

  virtual Answer Show(const Drawn& drawn) const = 0;
  // REQUIRES: not OK.
  virtual Answer Refuse(const absl::Status& status) const = 0;

  // True if it is answered by a stream of events (text/event-stream), as the two below have them.
  virtual bool streams() const { return false; }
  // The text of an event, of which there may be none; `now` is by the clock on the wall.
  virtual AnswerBody Tell(const generation::OutgoingEvent& event, absl::Time now) { return {}; }
  virtual AnswerBody TellEnd(const absl::Status& status) { return {}; }
};

}  // namespace latentd::server::http
