#include "core/pipeline/lanes.h"

#include <algorithm>

#include "core/base/status_macros.h"

namespace latentd::pipeline {
namespace {

// Where there is no memory for all rows: for half as many, and so on.
absl::StatusOr<std::shared_ptr<StepLane>> MakeLane(const Picture& picture) {
  const backends::Executable& any = *picture.stage().steps.begin()->second;
  int rows = picture.most_rows();
  auto lane = StepLane::Create(any, rows);
  while (absl::IsResourceExhausted(lane.status()) && rows > picture.rows()) {
    rows = std::max(rows / 2, picture.rows());
    lane = StepLane::Create(any, rows);
  }
  return lane;
}

}  // namespace

std::shared_ptr<StepLane> Lanes::Find(const Lane& lane) {
  absl::MutexLock lock(&mutex_);
  const auto found = lanes_.find(lane);
  return found == lanes_.end() ? nullptr : found->second.lock();
}

absl::StatusOr<std::shared_ptr<StepLane>> Lanes::For(const Picture& picture) {
  std::shared_ptr<StepLane> lane = Find(picture.lane());
  const bool is_small = lane != nullptr && lane->rows() < picture.most_rows();
  if (lane == nullptr || (is_small && lane->rows_taken() == 0)) {
    ASSIGN_OR_RETURN(lane, MakeLane(picture));
    absl::MutexLock lock(&mutex_);
    absl::erase_if(lanes_, [](const auto& entry) { return entry.second.expired(); });
    lanes_[picture.lane()] = lane;
  }
  lane->Add(picture.stage().steps);
  return lane;
}

int64_t Lanes::bytes() const {
  int64_t bytes = 0;
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, weak] : lanes_) {
    const std::shared_ptr<StepLane> lane = weak.lock();
    if (lane != nullptr && lane->rows_taken() > 0) bytes += lane->bytes();
  }
  return bytes;
}

}  // namespace latentd::pipeline
