// Answers of OpenAI's videos API.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "server/http/exchange/exchange.h"
#include "server/http/videos/video_job.h"

namespace latentd::server::http {

// A video as OpenAI's clients read it, with "latentd" beside what they know: how far it is, and
// what was used. It is kept for that long once it has ended.
nlohmann::ordered_json VideoJson(const VideoJob& job, absl::Duration kept_for);

// A page of `jobs`, which are the oldest first, as the query says: `after`, `limit`, `order`.
// INVALID_ARGUMENT names what is wrong with it.
absl::StatusOr<nlohmann::ordered_json> VideoList(const std::vector<std::shared_ptr<VideoJob>>& jobs,
                                                 absl::string_view query, absl::Duration kept_for);

// The file, or why there is none: NOT_FOUND, reason VIDEO_NOT_READY or VIDEO_FAILED.
// INVALID_ARGUMENT: the query asks for another `variant` of it.
absl::StatusOr<Answer> VideoContent(const VideoJob& job, absl::string_view query);

}  // namespace latentd::server::http
