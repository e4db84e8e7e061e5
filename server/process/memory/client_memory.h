// Host memory that clients may make the process hold, from what it may use at its start: requests
// on their way in, pictures (engine::Config::picture_memory_bytes), files of videos that are
// fetched later, and lines of the log.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace latentd::server::process {

struct ClientMemory {
  // Bytes that gRPC has received and no call has read. gRPC ends idle connections, and after them
  // calls, that want more.
  int64_t received_bytes = 0;
  // engine::Config's: init images, latents and results, of all requests.
  int64_t picture_bytes = 0;
  // Files of /v1/videos (http/videos/video_jobs.h). Without such videos nothing is kept for them.
  int64_t video_bytes = 0;
  // Memory left for the engine when clients hold all that they may, the request that
  // is being read and the log included.
  int64_t engine_bytes = 0;
};

// `memory` is what the process may use; `configured` what its operator lets it (0: all of that).
// An eighth of the less of them for what is received, as far as one request of `max_request_bytes`
// fits, and no more than eight of these or 256 MiB need; an eighth for pictures, and no more than
// 512 MiB, where `picture_bytes` is 0; an eighth for files of videos, and no more than 256 MiB,
// which the engine has where the server does not keep any.
ClientMemory ClientMemoryOf(int64_t memory, int64_t configured, int64_t max_request_bytes,
                            int64_t picture_bytes, bool keeps_videos);

// One kind of what clients make the process hold beside pictures, which the engine counts.
struct ClientBytes {
  absl::string_view kind;  // a value of metrics::kClientKind
  int64_t held = 0;        // now
  int64_t most = 0;        // 0: it has no bound of its own
};

}  // namespace latentd::server::process
