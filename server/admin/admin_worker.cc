#include "server/admin/admin_worker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/threads.h"

namespace latentd::server::admin {
namespace {

constexpr absl::Duration kRetryDelay = absl::Seconds(5);

}  // namespace

AdminWorker::AdminWorker(const std::string& thread_name)
    : thread_(StartThread(thread_name, [this] { Loop(); })) {}

void AdminWorker::Stop() {
  absl::MutexLock lock(&mutex_);
  stop_ = true;
}

AdminWorker::~AdminWorker() {
  Stop();
  thread_.join();
}

absl::Status AdminWorker::Add(std::function<void()> work) {
  absl::MutexLock lock(&mutex_);
  if (waiting_.size() >= kMaxWaitingWork) {
    return WithRetryDelay(
        WithReason(absl::ResourceExhaustedError(absl::StrCat(
                       kMaxWaitingWork, " calls of operators wait: try again when they are done")),
                   "QUEUE_FULL"),
        kRetryDelay);
  }
  waiting_.push_back(std::move(work));
  return absl::OkStatus();
}

void AdminWorker::Continue(std::function<void()> work) {
  absl::MutexLock lock(&mutex_);
  waiting_.push_back(std::move(work));
}

void AdminWorker::Loop() {
  const auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stop_ || !waiting_.empty();
  };
  while (true) {
    std::function<void()> work;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&has_work));
      if (waiting_.empty()) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work();
  }
}

}  // namespace latentd::server::admin
