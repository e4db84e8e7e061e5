// Facts on a generation call that are kept for its end: for its log line, and for why it failed.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/engine/api/events.h"

namespace latentd::server::generation {

// Not thread-safe.
struct CallRecord {
  // An event came at `now` (monotonic).
  void Note(const engine::Event& event, absl::Time now);

  // `code` is what the client sees as the end, `status` what led to it.
  void WriteLogLine(const absl::Status& status, absl::StatusCode code, absl::Time now) const;

  std::string method, id, peer;
  std::string trace_id;  // empty: the call belongs to none
  std::string size;      // size of the pictures
  std::string bucket;    // bucket that they were drawn in
  int steps = 0;
  int images = 0;
  int http_status = 0;  // 0: it came by gRPC
  absl::Time arrived, started = absl::InfiniteFuture();
};

// One line without a user's words: "INVALID_ARGUMENT bad_fields=width". Thread-safe.
std::string ReasonText(const absl::Status& status, absl::StatusCode code);

}  // namespace latentd::server::generation
