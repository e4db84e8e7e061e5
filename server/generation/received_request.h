// A request for pictures as its transport has received it: bytes of whatever format, read when it
// is its turn.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "server/generation/conversion/request_conversion.h"

namespace latentd::server::generation {

// Belongs to the thread that submits the request, while it does.
class ReceivedRequest {
 public:
  virtual ~ReceivedRequest() = default;

  // Bytes in memory.
  virtual int64_t size() const = 0;

  // INVALID_ARGUMENT says what is wrong with the bytes; what could be read of them is in `parsed`.
  // Called once; may take the bytes apart.
  virtual absl::Status Parse(ParsedRequest& parsed) = 0;

  // Frees the bytes. Called once.
  virtual void Drop() = 0;
};

}  // namespace latentd::server::generation
