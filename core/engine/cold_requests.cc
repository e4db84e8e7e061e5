#include "core/engine/cold_requests.h"

#include <algorithm>

namespace latentd::engine {

bool ColdRequests::Add(std::shared_ptr<Job> job, pipeline::PictureSpec picture) {
  absl::MutexLock lock(&mutex_);
  waiting_.push_back({std::move(job), std::move(picture)});
  return !std::exchange(served_, true);
}

ColdRequests::Begun ColdRequests::BeginNext() {
  absl::MutexLock lock(&mutex_);
  for (Waiting& request : waiting_) {
    if (std::exchange(request.begun, true)) continue;
    return {request.job, !request.picture.image.empty()};
  }
  return {};
}

bool ColdRequests::HasMore() {
  absl::MutexLock lock(&mutex_);
  served_ = std::any_of(waiting_.begin(), waiting_.end(),
                        [](const Waiting& request) { return !request.begun; });
  return served_;
}

std::optional<ColdRequests::Waiting> ColdRequests::Extract(uint64_t handle) {
  absl::MutexLock lock(&mutex_);
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& request) {
    return request.job->handle == handle;
  });
  if (found == waiting_.end()) return std::nullopt;
  std::optional<Waiting> extracted(std::move(*found));
  waiting_.erase(found);
  return extracted;
}

std::optional<pipeline::PictureSpec> ColdRequests::Take(uint64_t handle) {
  std::optional<Waiting> request = Extract(handle);
  if (!request.has_value()) return std::nullopt;
  return std::move(request->picture);
}

void ColdRequests::Remove(uint64_t handle) { Extract(handle); }

int64_t ColdRequests::image_bytes() const {
  absl::MutexLock lock(&mutex_);
  int64_t bytes = 0;
  for (const Waiting& request : waiting_) {
    bytes += static_cast<int64_t>(request.picture.image.size());
  }
  return bytes;
}

}  // namespace latentd::engine
