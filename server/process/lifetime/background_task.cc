#include "server/process/lifetime/background_task.h"

#include <utility>

#include "core/base/errors/out_of_memory.h"
#include "core/base/threads/threads.h"

namespace latentd::server::process {

BackgroundTask::BackgroundTask(const std::string& thread_name, std::function<void()> work)
    : work_(std::move(work)), thread_(StartThread(thread_name, [this] { Loop(); })) {}

BackgroundTask::~BackgroundTask() {
  Stop();
  thread_.join();
}

void BackgroundTask::Stop() {
  absl::MutexLock lock(&mutex_);
  stop_ = true;
}

void BackgroundTask::RunSoon() {
  absl::MutexLock lock(&mutex_);
  wanted_ = true;
}

bool BackgroundTask::WaitUntilDone(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(this, &BackgroundTask::done), timeout);
}

void BackgroundTask::Loop() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &BackgroundTask::has_work));
      if (!wanted_) return;
    }
    CatchOutOfMemory(work_).IgnoreError();
    absl::MutexLock lock(&mutex_);
    wanted_ = false;
  }
}

}  // namespace latentd::server::process
