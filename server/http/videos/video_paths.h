// Methods of /v1/videos, and of the paths below it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/generation/active_calls.h"
#include "server/generation/client.h"
#include "server/http/calls/served_models.h"
#include "server/http/exchange/exchange.h"
#include "server/http/videos/video_jobs.h"

namespace latentd::server::http {

// Thread-safe. What `environment` refers to, and the jobs, outlive it.
class VideoPaths {
 public:
  VideoPaths(generation::CallEnvironment environment, VideoJobs& jobs)
      : environment_(environment), jobs_(jobs) {}

  // POST: reads and submits a request, which may take a moment.
  Answer Create(Request http, generation::Client client) const;
  // GET: the caller's videos.
  Answer List(const std::string& caller, absl::string_view query) const;
  // GET of one, and of its file.
  Answer Show(const std::string& caller, absl::string_view id) const;
  Answer Fetch(const std::string& caller, absl::string_view id, absl::string_view query) const;
  Answer Delete(const std::string& caller, absl::string_view id) const;

 private:
  Answer Say(const nlohmann::ordered_json& json) const;

  const generation::CallEnvironment environment_;
  VideoJobs& jobs_;
};

}  // namespace latentd::server::http
