#include "core/engine/job.h"

#include <utility>

namespace latentd::engine {
namespace {

bool IsLast(const Event& event) {
  return std::holds_alternative<Completed>(event) || std::holds_alternative<Failed>(event);
}

}  // namespace

bool Job::Publish(Event event) {
  absl::MutexLock lock(&publishing_);
  return PublishLocked(std::move(event));
}

bool Job::PublishLocked(Event event) {
  if (ended_) return false;
  ended_ = IsLast(event);
  sink_->OnEvent(std::move(event));
  return ended_;
}

}  // namespace latentd::engine
