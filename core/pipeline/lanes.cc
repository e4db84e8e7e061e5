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

Lanes::Candidate Lanes::Find(const Lane& lane) {
  absl::MutexLock lock(&mutex_);
  const auto found = lanes_.find(lane);
  if (found == lanes_.end()) return {};
  return {found->second.lane.lock(), found->second.for_rows};
}

absl::StatusOr<std::shared_ptr<StepLane>> Lanes::For(const Picture& picture) {
  auto [lane, for_rows] = Find(picture.lane());
  if (lane == nullptr || (lane->rows() < picture.most_rows() && lane->rows_taken() == 0)) {
    ASSIGN_OR_RETURN(lane, MakeLane(picture));
    absl::MutexLock lock(&mutex_);
    absl::erase_if(lanes_, [](const auto& entry) { return entry.second.lane.expired(); });
    lanes_[picture.lane()] = {lane, picture.most_rows()};
  } else if (for_rows < picture.most_rows()) {
    // It would never be empty as long as pictures join it.
    return nullptr;
  }
  lane->Add(picture.stage().steps);
  return lane;
}

int Lanes::count() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(std::count_if(lanes_.begin(), lanes_.end(), [](const auto& entry) {
    return !entry.second.lane.expired();
  }));
}

int64_t Lanes::bytes() const {
  int64_t bytes = 0;
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, entry] : lanes_) {
    const std::shared_ptr<StepLane> lane = entry.lane.lock();
    if (lane != nullptr && lane->rows_taken() > 0) bytes += lane->bytes();
  }
  return bytes;
}

}  // namespace latentd::pipeline
