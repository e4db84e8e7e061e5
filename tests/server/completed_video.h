// The end of a request for a video, as an engine tells it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/engine/api/events.h"

namespace latentd::server {

inline engine::Completed CompletedVideo(std::vector<std::string> warnings = {}) {
  engine::Completed completed{.warnings = std::move(warnings)};
  completed.effective.video.emplace();
  return completed;
}

}  // namespace latentd::server
