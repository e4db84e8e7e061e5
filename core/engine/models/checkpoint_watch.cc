#include "core/engine/models/checkpoint_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/metrics/families.h"

namespace latentd::engine {

CheckpointWatch::CheckpointWatch(metrics::Registry& registry, Warn warn,
                                 std::function<void()> changed)
    : registry_(registry), warn_(std::move(warn)), changed_(std::move(changed)) {
  absl::MutexLock lock(&mutex_);
  ShowMetrics();
}

void CheckpointWatch::Open(Files files) {
  absl::MutexLock lock(&mutex_);
  files_ = std::move(files);
}

std::set<std::string> CheckpointWatch::edited() const {
  absl::MutexLock lock(&mutex_);
  return edited_;
}

void CheckpointWatch::CheckSoon() {
  absl::MutexLock lock(&mutex_);
  if (checking_ || files_.empty()) return;
  checking_ = true;
  thread_.Add([this] { Check(); });
}

void CheckpointWatch::Check() {
  Files files;
  {
    absl::MutexLock lock(&mutex_);
    files = files_;
  }
  for (const auto& file : files) CheckFile(*file);
  absl::MutexLock lock(&mutex_);
  checking_ = false;
}

void CheckpointWatch::CheckFile(const weights::WatchedFile& file) {
  if (file.IsReplaced() && Add(file.path(), &CheckpointWatch::replaced_) && warn_) {
    warn_(absl::StrCat(file.path(),
                       " was replaced or removed while it is in use; the file that was opened is "
                       "served until the server is restarted"));
  }
  const absl::Status unchanged = file.CheckUnchanged();
  if (unchanged.ok() || !Add(file.path(), &CheckpointWatch::edited_)) return;
  if (warn_) warn_(unchanged.message());
  changed_();
}

bool CheckpointWatch::Add(const std::string& path, std::set<std::string> CheckpointWatch::*paths) {
  absl::MutexLock lock(&mutex_);
  if (!(this->*paths).insert(path).second) return false;
  ShowMetrics();
  return true;
}

void CheckpointWatch::ShowMetrics() {
  registry_.GetGauge(metrics::kCheckpointChangedFiles, {"edited"})
      .Set(static_cast<double>(edited_.size()));
  registry_.GetGauge(metrics::kCheckpointChangedFiles, {"replaced"})
      .Set(static_cast<double>(replaced_.size()));
}

}  // namespace latentd::engine
