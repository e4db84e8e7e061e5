// Notices that a file of the checkpoints that are served was edited, or replaced by another one,
// and reports it: once in the log, in a metric, and to readers of the status.
//
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/base/threads/worker.h"
#include "core/metrics/registry.h"
#include "core/weights/watched_file.h"

namespace latentd::engine {

class CheckpointWatch {
 public:
  using Files = std::vector<std::shared_ptr<const weights::WatchedFile>>;
  using Warn = std::function<void(absl::string_view)>;  // may be empty

  // `registry` must outlive the watch. `changed` is called when edited() has become another, on a
  // thread of the watch's.
  CheckpointWatch(metrics::Registry& registry, Warn warn, std::function<void()> changed);

  // Begins to watch these files.
  void Open(Files files) ABSL_LOCKS_EXCLUDED(mutex_);

  // Looks at all files, on a thread of its own, since a file whose times moved is read, and one on
  // a network may not answer. Does nothing while it is looking.
  void CheckSoon() ABSL_LOCKS_EXCLUDED(mutex_);

  // Paths of the files that have, or may have, other content than they were opened with.
  std::set<std::string> edited() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Check() ABSL_LOCKS_EXCLUDED(mutex_);
  void CheckFile(const weights::WatchedFile& file) ABSL_LOCKS_EXCLUDED(mutex_);
  // False: it is known.
  bool Add(const std::string& path, std::set<std::string> CheckpointWatch::*paths)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void ShowMetrics() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  metrics::Registry& registry_;
  const Warn warn_;
  const std::function<void()> changed_;
  mutable absl::Mutex mutex_;
  Files files_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> edited_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> replaced_ ABSL_GUARDED_BY(mutex_);
  bool checking_ ABSL_GUARDED_BY(mutex_) = false;
  Worker thread_{"checkpoint"};  // last: its tasks use the others
};

}  // namespace latentd::engine
