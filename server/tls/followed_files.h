// A value that is made from files, and made anew when they change. What cannot be made leaves the
// value as it was: files that belong together are rarely replaced in the same instant.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/files.h"

namespace latentd::server::tls {

// Thread-safe.
template <typename T>
class FollowedFiles {
 public:
  using Contents = std::vector<std::string>;  // in the order of the paths
  using Make = std::function<absl::StatusOr<T>(const Contents&)>;

  // The first reading, with its error.
  static absl::StatusOr<std::unique_ptr<FollowedFiles>> Open(std::vector<std::string> paths,
                                                             Make make) {
    std::unique_ptr<FollowedFiles> files(new FollowedFiles(std::move(paths), std::move(make)));
    ASSIGN_OR_RETURN(const bool made, files->Refresh());
    static_cast<void>(made);
    return files;
  }

  // True if there is a new value. An error is that of a new one that cannot be made, and returned
  // once for each change of the files. Reads them whole, so call it every second, not more often.
  absl::StatusOr<bool> Refresh() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::StatusOr<Contents> contents = Read();
    absl::MutexLock lock(&mutex_);
    if (contents == last_) return false;
    last_ = std::move(contents);
    RETURN_IF_ERROR(last_.status());
    ASSIGN_OR_RETURN(T value, make_(*last_));
    value_ = std::make_shared<const T>(std::move(value));
    return true;
  }

  std::shared_ptr<const T> value() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return value_;
  }

 private:
  static constexpr size_t kMaxFileBytes = 1 << 20;

  FollowedFiles(std::vector<std::string> paths, Make make)
      : paths_(std::move(paths)), make_(std::move(make)) {}

  absl::StatusOr<Contents> Read() const {
    Contents contents;
    for (const std::string& path : paths_) {
      ASSIGN_OR_RETURN(std::string content, ReadFile(path, kMaxFileBytes));
      contents.push_back(std::move(content));
    }
    return contents;
  }

  const std::vector<std::string> paths_;
  const Make make_;
  mutable absl::Mutex mutex_;
  absl::StatusOr<Contents> last_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const T> value_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::server::tls
