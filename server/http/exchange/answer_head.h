// The head of an answer as bytes.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/http/exchange/exchange.h"

namespace latentd::server::http {

struct Framing {
  std::optional<int64_t> length;  // nothing: it is a stream
  bool chunked = false;           // a stream's: else it ends with the connection
  bool keep_alive = true;
  std::string request_id = {};  // empty: no request for pictures
};

// `now` is by the clock on the wall. Line breaks in headers are left out.
std::string HeadOf(const Answer& answer, const Framing& framing, absl::Time now);

// A part of a stream, as it is sent.
std::string FrameOf(absl::string_view bytes, bool chunked, bool last);

}  // namespace latentd::server::http
