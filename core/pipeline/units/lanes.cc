#include "core/pipeline/units/lanes.h"

#include <algorithm>

#include "core/base/errors/status_macros.h"

namespace latentd::pipeline {

namespace {

// First none for pictures that rest.
int FewerRows(const Picture& picture, int rows) {
  const int evaluated = picture.most_rows();
  return std::max({rows / 2, rows > evaluated ? evaluated : 0, picture.rows()});
}

}  // namespace

Lanes::Candidate Lanes::Find(const Lane& lane) {
  absl::MutexLock lock(&mutex_);
  const auto found = lanes_.find(lane);
  if (found == lanes_.end()) return {};
  return {found->second.lane.lock(), found->second.for_rows};
}

absl::Status Lanes::Ask(const Picture& picture, int rows) const {
  if (!ask_room_) return absl::OkStatus();
  const compiler::GraphLabel label{.model = picture.model().name,
                                   .component = std::string(kUnetName),
                                   .part = "lane",
                                   .width = picture.executed_size().width,
                                   .height = picture.executed_size().height,
                                   .rows = rows,
                                   .frames = picture.executed_size().frames};
  const backends::Executable& any = *picture.stage().steps.begin()->second;
  return ask_room_({label, StepLane::Bytes(StepPortsOf(any.info()), rows), rows == picture.rows()});
}

absl::StatusOr<std::shared_ptr<PathPool>> Lanes::PathsFor(const Picture& picture) {
  if (picture.ranks() == 0) return nullptr;
  const int model = picture.model().id.value;
  {
    absl::MutexLock lock(&mutex_);
    if (std::shared_ptr<PathPool> pool = paths_[model].lock()) return pool;
  }
  const StepPaths& paths = picture.stage().model.graphs().step_paths();
  if (ask_room_) {
    const compiler::GraphLabel label{.model = picture.model().name,
                                     .component = std::string(kUnetName),
                                     .part = "paths",
                                     .rows = paths.slots};
    RETURN_IF_ERROR(ask_room_({label, paths.pool_bytes(), /*is_least=*/true}));
  }
  const backends::Executable& any = *picture.stage().steps.begin()->second;
  ASSIGN_OR_RETURN(std::shared_ptr<PathPool> pool, PathPool::Create(any.device(), paths));
  absl::MutexLock lock(&mutex_);
  paths_[model] = pool;
  return pool;
}

// Without memory for all rows: tries those that are evaluated at once, then half as
// many, and so on.
absl::StatusOr<std::shared_ptr<StepLane>> Lanes::TryMake(const Picture& picture, bool has_others) {
  ASSIGN_OR_RETURN(const std::shared_ptr<PathPool> paths, PathsFor(picture));
  const backends::Executable& any = *picture.stage().steps.begin()->second;
  for (int rows = picture.lane_rows();; rows = FewerRows(picture, rows)) {
    const bool is_least = rows == picture.rows();
    absl::Status room = Ask(picture, rows);
    if (absl::IsResourceExhausted(room) && is_least && !has_others) room = absl::OkStatus();
    auto lane = room.ok() ? StepLane::Create(any, rows, paths)
                          : absl::StatusOr<std::shared_ptr<StepLane>>(room);
    if (is_least || !absl::IsResourceExhausted(lane.status())) return lane;
  }
}

// Null: others hold memory that they will give back, or that another picture waits for.
absl::StatusOr<std::shared_ptr<StepLane>> Lanes::Make(const Picture& picture) {
  const int64_t others = BytesHeld();
  if (waiting_ && others > 0) {
    const bool is_own = waiting_->lane == picture.lane();
    if (!is_own || others >= waiting_->beside) return nullptr;
  }
  absl::StatusOr<std::shared_ptr<StepLane>> lane = TryMake(picture, others > 0);
  waiting_.reset();
  if (others == 0 || !absl::IsResourceExhausted(lane.status())) return lane;
  waiting_ = {picture.lane(), others, picture.request};
  return nullptr;
}

absl::StatusOr<std::shared_ptr<StepLane>> Lanes::For(const Picture& picture) {
  if (waiting_ && waiting_->request.expired()) waiting_.reset();
  auto [lane, for_rows] = Find(picture.lane());
  if (lane == nullptr || (lane->rows() < picture.lane_rows() && lane->rows_taken() == 0)) {
    ASSIGN_OR_RETURN(lane, Make(picture));
    if (lane == nullptr) return nullptr;
    absl::MutexLock lock(&mutex_);
    absl::erase_if(lanes_, [](const auto& entry) { return entry.second.lane.expired(); });
    lanes_[picture.lane()] = {lane, picture.lane_rows()};
  } else if (waiting_ || for_rows < picture.lane_rows()) {
    // It would never be empty as long as pictures join it.
    return nullptr;
  }
  lane->Add(picture.stage().steps, picture.stage().shallow_steps);
  return lane;
}

int Lanes::count() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(std::count_if(lanes_.begin(), lanes_.end(), [](const auto& entry) {
    return !entry.second.lane.expired();
  }));
}

int64_t Lanes::BytesHeld() const {
  int64_t bytes = 0;
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, entry] : lanes_) {
    const std::shared_ptr<StepLane> lane = entry.lane.lock();
    if (lane != nullptr) bytes += lane->bytes();
  }
  return bytes;
}

int64_t Lanes::bytes() const {
  int64_t bytes = 0;
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, entry] : lanes_) {
    const std::shared_ptr<StepLane> lane = entry.lane.lock();
    if (lane != nullptr && lane->rows_taken() > 0) bytes += lane->bytes();
  }
  for (const auto& [model, entry] : paths_) {
    const std::shared_ptr<PathPool> pool = entry.lock();
    if (pool != nullptr) bytes += static_cast<int64_t>(pool->memory().bytes());
  }
  return bytes;
}

}  // namespace latentd::pipeline
